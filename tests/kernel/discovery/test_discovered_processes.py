"""Tests that processes are traced from the moment they map a library until they end, however they start."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.soak.footprint import bpf_objects
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.children import Child, until
from tests.kernel.discovery.tracing import TracedDiscovery


def test_processes_older_and_newer_than_tracing_are_found(tracing: TracedDiscovery, library: Path) -> None:
    with Child() as early, Child() as late:
        early.load(library)
        tracing.libraries.start()
        assert early.pid in tracing.libraries.traced_pids()
        early.call(library, "cudaMalloc", 30)
        assert late.pid not in tracing.libraries.traced_pids()
        late.load(library)
        tracing.update()  # the library is mapped, so one update is enough
        assert late.pid in tracing.libraries.traced_pids()
        late.call(library, "cudaMalloc", 20)
        late.call(library, "cudaFree", 5)
        late.call(library, "cudaGetLastError", 7)
        assert tracing.calls(early.pid) == {"cudaMalloc": 30}
        assert tracing.calls(late.pid) == {"cudaMalloc": 20, "cudaFree": 5}
        assert tracing.attached == ["libcudart.so.12"]
        assert tracing.rows == {("libcudart.so.12", "runtime"): (2, 2)}
    assert until(lambda: tracing.rows == {("libcudart.so.12", "runtime"): (2, 0)}, tracing.update)


def test_a_process_in_a_pid_namespace_is_traced_by_its_outer_pid(
    tracing: TracedDiscovery, library: Path
) -> None:
    tracing.libraries.start()
    before = tracing.libraries.traced_pids()
    with Child(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]) as child:
        assert child.own_pid == 1
        child.load(library)
        tracing.update()
        # The child's PID in the test's namespace; in its own namespace the child has PID 1.
        mine = {
            pid
            for pid in tracing.libraries.traced_pids() - before
            if os.path.realpath(f"/proc/{pid}/ns/pid") != os.path.realpath("/proc/self/ns/pid")
        }
        assert len(mine) == 1
        child.call(library, "cudaFree", 11)
        assert tracing.calls(mine.pop()) == {"cudaFree": 11}


@pytest.mark.parametrize("started_first", [True, False])
def test_a_program_with_a_static_runtime_is_traced(
    tracing: TracedDiscovery, built: Path, tmp_path: Path, started_first: bool
) -> None:
    program = shutil.copy(built / "program", tmp_path / "program")
    if not started_first:
        tracing.libraries.start()
    with subprocess.Popen(
        [program, "25", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        if started_first:
            tracing.libraries.start()
        else:
            tracing.update()
        assert process.pid in tracing.libraries.traced_pids()
        assert tracing.rows == {("program", "runtime"): (1, 1)}
        process.stdin.write(b"\n")
        assert process.stdout.readline() == b"done\n"
        assert tracing.calls(process.pid) == {"cudaMalloc": 25}
        process.stdin.write(b"\n")


def test_calls_of_a_runtime_inside_another_library_are_counted(
    tracing: TracedDiscovery, built: Path, tmp_path: Path
) -> None:
    linked = Path(shutil.copy(built / "libggml-cuda.so", tmp_path / "libggml-cuda.so"))
    driver = Path(shutil.copy(built / "libcuda.so.1", tmp_path / "libcuda.so.1"))
    tracing.libraries.start()
    with Child() as child:
        child.load(linked)
        child.load(driver)
        tracing.update()
        child.call(linked, "work", 7)
        assert tracing.calls(child.pid) == {"cudaMalloc": 7}
        assert tracing.rows[("libggml-cuda.so", "runtime")] == (1, 1)


def open_below(folder: Path) -> int:
    """Return how many descriptors of this process are files below ``folder``."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            count += os.readlink(f"/proc/self/fd/{name}").startswith(f"{folder}/")
    return count


def test_many_short_lived_processes_leave_nothing_behind(
    tracing: TracedDiscovery, built: Path, tmp_path: Path
) -> None:
    program = shutil.copy(built / "program", tmp_path / "program")
    stripped = shutil.copy(built / "stripped", tmp_path / "stripped")
    tracing.libraries.start()
    with subprocess.Popen([program, "0", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        tracing.update()
        total = Counter[str]()
        for _ in range(12):
            running = [subprocess.Popen([path, "5"]) for path in [program] * 8 + [stripped] * 2]
            tracing.update()
            for process in running:
                process.wait()
                total.update(tracing.calls(process.pid))
        assert total == {"cudaMalloc": 12 * 8 * 5}
        assert until(lambda: tracing.rows == {("program", "runtime"): (1, 1)}, tracing.update)
        assert open_below(tmp_path) == 1  # the descriptor of the probed file
        assert tracing.attached == ["program"]
        holder.communicate(b"\n\n")


def test_a_forked_child_is_traced(tracing: TracedDiscovery, library: Path) -> None:
    tracing.libraries.start()
    with Child() as parent:
        parent.load(library)
        tracing.update()
        child = parent.do("fork")
        parent.call(library, "cudaMalloc", 12)  # the forked child calls
        assert until(lambda: child in tracing.libraries.traced_pids(), tracing.update)
        assert tracing.calls(child) == {"cudaMalloc": 12}
        parent.do("end")
        parent.call(library, "cudaMalloc", 2)
        assert tracing.calls(parent.pid) == {"cudaMalloc": 2}
        assert until(lambda: child not in tracing.libraries.traced_pids(), tracing.update)
        assert parent.pid in tracing.libraries.traced_pids()


def test_a_process_without_its_first_thread_is_traced(tracing: TracedDiscovery, library: Path) -> None:
    with Child() as child:
        child.tell("end_first_thread")
        assert until(lambda: Path(f"/proc/{child.pid}/maps").read_bytes() == b"")
        child.load(library)
        tracing.libraries.start()
        assert child.pid in tracing.libraries.traced_pids()
        child.call(library, "cudaMalloc", 4)
        assert tracing.calls(child.pid) == {"cudaMalloc": 4}


def test_after_exec_a_process_is_no_longer_traced(tracing: TracedDiscovery, library: Path) -> None:
    tracing.libraries.start()
    with Child() as child:
        child.load(library)
        tracing.update()
        assert child.pid in tracing.libraries.traced_pids()
        child.do("execute", sys.executable, "-I", "-S", "-c", "input()")
        assert until(lambda: child.pid not in tracing.libraries.traced_pids(), tracing.update)
        assert tracing.rows == {("libcudart.so.12", "runtime"): (2, 0)}


def test_only_a_process_seen_before_it_loaded_the_driver_counts_as_watched(
    tracing: TracedDiscovery, library: Path, built: Path
) -> None:
    driver = shutil.copy(built / "libcuda.so.1", library.with_name("libcuda.so.1"))
    with Child() as older, Child() as child:
        for path in (library, driver):
            older.load(path)
        tracing.libraries.start()
        child.load(library)
        tracing.update()
        child.load(driver)
        tracing.update()
        assert tracing.libraries.watched_from_begin(child.pid)
        assert not tracing.libraries.watched_from_begin(older.pid)
        older.load(built / "other" / "libcudart.so.12")
        tracing.update()
        assert not tracing.libraries.watched_from_begin(older.pid)
        child.do("execute", sys.executable, "-I", "-S", "-c", "input()")
        assert until(lambda: not tracing.libraries.watched_from_begin(child.pid), tracing.update)


def test_discovery_can_be_closed_twice_and_updated_afterwards(
    tracing: TracedDiscovery, library: Path
) -> None:
    tracing.libraries.start()
    with Child() as child:
        child.load(library)
        tracing.libraries.close()
        tracing.libraries.close()
        tracing.update()
        assert tracing.attached == []
        child.call(library, "cudaMalloc", 3)
        assert tracing.calls(child.pid) == {}


def test_a_kernel_side_at_rest_is_attached_to_nothing_and_counts_later(tmp_path: Path, library: Path) -> None:
    before = {found for found in bpf_objects(os.getpid()) if found[0] == "link"}
    kernel = KernelSide()
    try:
        kernel.rest()
        assert {found for found in bpf_objects(os.getpid()) if found[0] == "link"} == before
        tracing = TracedDiscovery(kernel, tmp_path)
        tracing.libraries.start()
        with Child() as child:
            child.load(library)
            tracing.update()
            child.call(library, "cudaMalloc", 9)
            assert tracing.calls(child.pid) == {"cudaMalloc": 9}
            records = kernel._programs.threads["tgid"]
            assert child.pid in records
            pid = child.pid
        # The end of the thread is seen again, too.
        assert until(lambda: pid not in kernel._programs.threads["tgid"])
        tracing.libraries.close()
    finally:
        kernel.close()
