"""Tests, on a real GPU, the times that processes had it according to the driver's log of context switches."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stalltop.diagnosis.engine import Diagnosis
from stalltop.model.devices.device import Device
from stalltop.model.sharing.ways import TURNS_PER_SECOND
from stalltop.model.window import Window
from stalltop.probes.monitor import Monitor
from stalltop.probes.nvml.reader import DeviceReader
from tests.kernel.harness import wait_until

KERNEL_MS = 1.0
SPIN = Path(__file__).with_name("spin.py")


@pytest.fixture(scope="module", autouse=True)
def gpu() -> None:
    if not os.path.exists("/dev/nvidia0"):
        pytest.skip("this machine has no NVIDIA GPU")


@contextmanager
def spinning(*counts: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Start one program for each of ``counts``: it will launch that many CUDA kernels of ``KERNEL_MS``."""
    programs: list[subprocess.Popen[str]] = []
    try:
        for count in counts:  # one after the other: each measures alone how long its work takes
            program = subprocess.Popen(
                [sys.executable, SPIN, str(KERNEL_MS), str(count)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            programs.append(program)
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
        yield programs
    finally:
        for program in programs:
            program.kill()
            program.communicate()


def begin(programs: list[subprocess.Popen[str]]) -> None:
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("\n")
        program.stdin.flush()


def end(programs: list[subprocess.Popen[str]]) -> list[float]:
    """Wait until each program has done its work; return how long each took, ms."""
    found = []
    for program in programs:
        assert program.stdout is not None
        found.append(int(program.stdout.readline()) / 1e6)
    return found


def read_log(reader: DeviceReader) -> Device:
    [device] = reader.read().devices
    unread = [note for note in device.notes if "context switches" in note]
    if unread:
        pytest.skip(unread[0])
    return device


def test_time_slices_are_the_work_of_each_process(capsys: pytest.CaptureFixture[str]) -> None:
    counts = (600, 300)
    reader = DeviceReader(patience_seconds=10.0)
    try:
        with spinning(*counts) as programs:
            wait_until(lambda: read_log(reader).context_switches is not None, what="the log")
            begin(programs)
            taken_ms = end(programs)
            device = read_log(reader)
    finally:
        reader.close()
    found = {one.pid: (one.resident_ns or 0) / 1e6 for one in device.processes}
    with capsys.disabled():
        print(f"\n{device.name}: {device.context_switches} context switches in {max(taken_ms):.0f} ms")
        for program, count in zip(programs, counts, strict=True):
            print(f"  {count * KERNEL_MS:.0f} ms of CUDA kernels, {found[program.pid]:.1f} ms on the GPU")
    # While it is alone at the end, the first program has the GPU, too: until the log was read.
    assert device.context_switches is not None
    assert device.context_switches > 50
    small, large = found[programs[1].pid], found[programs[0].pid]
    assert 0.85 * counts[1] * KERNEL_MS <= small <= 1.25 * counts[1] * KERNEL_MS
    assert large >= 0.85 * counts[0] * KERNEL_MS


def test_a_program_that_is_alone_causes_no_switch() -> None:
    reader = DeviceReader(patience_seconds=10.0)
    try:
        with spinning(100, 0) as programs:
            wait_until(lambda: read_log(reader).context_switches is not None, what="the log")
            begin(programs[:1])
            end(programs[:1])
            device = read_log(reader)
    finally:
        reader.close()
    assert device.context_switches is not None
    assert device.context_switches < TURNS_PER_SECOND


def test_the_tenant_that_waits_and_the_one_that_has_the_gpu_are_named() -> None:
    monitor, diagnosis = Monitor(), Diagnosis()
    causes = Counter[str]()
    named: list[tuple[int, int]] = []
    """(PID of the process that waits, PID of the one that has the GPU) of each problem."""
    try:
        assert monitor.cannot_trace is None
        with spinning(4_000, 4_000) as programs, in_cgroups(programs):
            wait_until(lambda: _has_both(monitor.read(), programs), what="both programs")
            begin(programs)
            for _ in range(5):
                time.sleep(1.0)
                window = diagnosis.add(monitor.read())
                causes.update(chain.cause for chain in window.chains if chain.open)
                named += [
                    (chain.pid, link.pid)
                    for chain in window.chains
                    if chain.cause == "gpu_neighbours" and chain.open
                    for link in chain.links
                    if link.role == "culprit"
                ]
    finally:
        monitor.close()
    assert causes["gpu_neighbours"] >= 3
    one, two = (program.pid for program in programs)
    assert set(named) == {(one, two), (two, one)}


@contextmanager
def in_cgroups(programs: list[subprocess.Popen[str]]) -> Iterator[None]:
    """Move each program into a cgroup of its own, so that each is a tenant."""
    root = next(path for path in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if path.is_dir())
    made = [root / f"stalltop-test-{program.pid}" for program in programs]
    for folder, program in zip(made, programs, strict=True):
        folder.mkdir()
        (folder / "cgroup.procs").write_text(str(program.pid))
    try:
        yield
    finally:
        for folder, program in zip(made, programs, strict=True):
            program.kill()
            program.wait()
            folder.rmdir()


def _has_both(window: Window, programs: list[subprocess.Popen[str]]) -> bool:
    listed = {one.pid for device in window.devices.devices for one in device.processes}
    return listed >= {program.pid for program in programs}
