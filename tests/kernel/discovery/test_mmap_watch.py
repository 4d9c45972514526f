"""Tests the Linux kernel's events of mappings, and that processes are inspected if events are missing or
lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from stalltop.probes.libraries import mmap_watch
from stalltop.probes.libraries.mmap_watch import MmapWatch
from stalltop.probes.libraries.processes import Processes
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.children import Child, until
from tests.kernel.discovery.tracing import TracedDiscovery


def test_mappings_are_reported_with_pid_and_path(library: Path) -> None:
    watch = MmapWatch()
    try:
        watch.read()
        with Child() as child:
            child.load(library)
            changes = watch.read()
            assert not changes.lost
            assert (child.pid, os.fsencode(library)) in {
                (mapped.pid, mapped.name) for mapped in changes.mapped
            }
            # Map far more often than the rings have room for, and read every time. Some records then lie
            # across the end of a ring, and they must be read whole.
            for _ in range(300):
                for _ in range(10):
                    child.do("map_file", library)
                names = Counter(mapped.name for mapped in watch.read().mapped if mapped.pid == child.pid)
                assert names[os.fsencode(library)] == 10
        assert watch.read().lost is False
    finally:
        watch.close()
        watch.close()


IN_NAMESPACE = """
import subprocess
from stalltop.probes.libraries.mmap_watch import MmapWatch
watch = MmapWatch()
input(print("ready", flush=True) or "")
subprocess.run(["true"])
print(*{mapped.pid for mapped in watch.read().mapped})
"""


def test_processes_of_other_pid_namespaces_are_not_reported() -> None:
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", IN_NAMESPACE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "ready\n"
        subprocess.run(["true"], check=True)
        said, _ = watching.communicate("\n")
    assert said.split() == ["2"]  # the second process of the namespace


def test_mappings_are_reported_with_file_and_time(library: Path) -> None:
    watch = MmapWatch()
    try:
        with Child() as child:
            watch.read()
            before = time.monotonic_ns()
            child.load(library)
            after = time.monotonic_ns()
            (mapped,) = [one for one in watch.read().mapped if one.name == os.fsencode(library)]
    finally:
        watch.close()
    assert before < mapped.time_ns < after
    assert mapped.inode == library.stat().st_ino
    assert mapped.device == library.stat().st_dev


def test_without_events_of_mappings_processes_are_inspected(
    kernel: KernelSide, tmp_path: Path, library: Path
) -> None:
    tracing = TracedDiscovery(kernel, tmp_path, Processes(watch=None))
    try:
        tracing.libraries.start()
        with Child() as child:
            tracing.update()
            child.load(library)
            assert until(lambda: child.pid in tracing.libraries.traced_pids(), tracing.update)
            child.call(library, "cudaMalloc", 3)
            assert tracing.calls(child.pid) == {"cudaMalloc": 3}
    finally:
        tracing.libraries.close()


def test_after_lost_events_of_mappings_processes_are_inspected(
    kernel: KernelSide, tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mmap_watch, "RING_BYTES", 4096)
    tracing = TracedDiscovery(kernel, tmp_path)
    try:
        tracing.libraries.start()
        with Child() as busy, Child() as child:
            tracing.update()
            for _ in range(100):
                busy.do("map_file", library)
            busy.do("load", library)
            child.load(library)
            # The Linux kernel reports a loss together with the next record for which the ring has room.
            assert until(lambda: child.pid in tracing.libraries.traced_pids(), tracing.update)
    finally:
        tracing.libraries.close()
