"""Tests how the time of a call is divided by cause (``SPLITS``): the parts add up exactly to the call's time,
and each kind of wait is counted in the right part."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stalltop.model.window import SPLITS
from stalltop.probes.layout import How
from stalltop.probes.operations import BETWEEN_CALLS, Function
from stalltop.probes.programs import bpf_calls
from stalltop.probes.programs.task_offsets import NoBtfError
from stalltop.probes.tracer import kernel_side, probing
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.traced_program import (
    DEADLINE_SECONDS,
    TracedProgram,
    compile_waiter,
    points,
    read_calls,
    wait_until,
)

WAITS = {
    # function of native/waiter.c: the part of the split that must contain its time
    "run": "running",
    "wait_memory": "memory",
    "wait_lock": "lock",
    "wait_poll": "gpu",
    "wait_poll_elsewhere": "network",
    "wait_socket": "network",
    "wait_epoll": "network",
    "wait_pipe": "process",
    "wait_child": "process",
    "wait_sleep": "sleep",
}
FUNCTIONS = tuple(
    Function(number, symbol, 10 * number, "nccl" if symbol == "wait_poll_elsewhere" else "driver")
    for number, symbol in enumerate([*WAITS, "wait_disk", "wait_read", "around"], 1)
)
NAME = {function.operation: function.symbol for function in FUNCTIONS}
NAME |= {info.id: info.name for info in BETWEEN_CALLS}
CALLS = 12


@dataclass(frozen=True)
class Split:
    """The sums over the calls of one function: number, time, and the parts of the time."""

    calls: int
    total_ns: int
    parts: dict[str, int]

    def share_beside_waiting_for_a_cpu(self, part: str) -> float:
        """Return the share of ``part`` in the time of the calls.

        Run-queue time is left out of the time, since it depends on other load on the machine.
        """
        return self.parts[part] / max(self.total_ns - self.parts["runqueue"], 1)


@dataclass(frozen=True)
class Waiters:
    """A kernel side that traces native/waiter.c."""

    kernel: KernelSide
    path: Path

    def start(self) -> TracedProgram:
        # The waiter writes into its current directory. The folder where it was built is most likely on a
        # disk.
        return TracedProgram(self.path, before=lambda: os.chdir(self.path.parent))

    def read(self, program: TracedProgram) -> dict[tuple[str, bool], Split]:
        """Return the sums of ``program`` since the previous read, by function and nesting."""
        counts = self.kernel.read()
        assert counts.split_ns is not None or not counts.keys
        result = {}
        for place, key in enumerate(counts.keys):
            assert counts.split_ns is not None
            parts = counts.split_ns[place]
            assert parts.sum() == counts.total_ns[place]
            if key.tgid == program.pid:
                result[NAME[key.operation], key.nested] = Split(
                    int(counts.calls[place]),
                    int(counts.total_ns[place]),
                    dict(zip(SPLITS, parts.tolist(), strict=True)),
                )
        return result


@pytest.fixture(scope="module")
def waiter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_waiter(tmp_path_factory.mktemp("waiter"))


@pytest.fixture(scope="module", params=["multi", pytest.param("perf", marks=pytest.mark.perf)])
def waiters(request: pytest.FixtureRequest, waiter: Path) -> Iterator[Waiters]:
    kernel = KernelSide(way=request.param, slots=64, threads=64, functions=FUNCTIONS)
    try:
        assert kernel.no_splits is None
        assert not kernel.attach(str(waiter), points(waiter, FUNCTIONS)).failed
        yield Waiters(kernel, waiter)
    finally:
        kernel.close()


def test_every_wait_is_in_its_part(waiters: Waiters) -> None:
    with waiters.start() as program:
        for name, part in WAITS.items():
            program(f"{name} {CALLS} 5")
            split = waiters.read(program)[name, False]
            assert split.calls == CALLS
            assert split.share_beside_waiting_for_a_cpu(part) >= 0.9, (name, split)


def _skip_without_disk(waiters: Waiters) -> None:
    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", waiters.path], capture_output=True, text=True, check=True
    ).stdout.strip()
    if kind in ("tmpfs", "ramfs"):
        pytest.skip(f"temporary files are kept in memory here ({kind}), so nothing waits for a disk")


def test_waits_for_a_disk_are_in_the_part_disk(waiters: Waiters) -> None:
    _skip_without_disk(waiters)
    parts: dict[str, int] = dict.fromkeys(SPLITS, 0)

    def has_waited() -> bool:
        program("wait_disk 20 0")
        for part, ns in waiters.read(program)["wait_disk", False].parts.items():
            parts[part] += ns
        return parts["disk"] > 0

    with waiters.start() as program:
        wait_until(has_waited, "a wait for the disk")
    assert parts["disk"] >= 0.9 * sum(parts[name] for name in SPLITS if name not in ("running", "runqueue"))


def test_waits_in_fsync_are_told_from_other_waits_for_a_disk(waiters: Waiters) -> None:
    _skip_without_disk(waiters)
    on_disk = dict.fromkeys(("wait_disk", "wait_read"), 0)
    in_fsync = dict.fromkeys(on_disk, 0)

    def has_waited() -> bool:
        for name in on_disk:
            program(f"{name} 20 0")
            on_disk[name] += waiters.read(program)[name, False].parts["disk"]
            waiters.kernel.evidence.charges()
            for wait in waiters.kernel.evidence.waits():
                if wait.tgid == program.pid and SPLITS[wait.part] == "disk":
                    assert (wait.how, wait.waker_tgid) == (How.SYNC, 0)
                    in_fsync[NAME[wait.operation]] += wait.ns
        return min(on_disk.values()) > 0

    with waiters.start() as program:
        wait_until(has_waited, "waits for the disk")
    assert 0.95 * on_disk["wait_disk"] <= in_fsync["wait_disk"] <= on_disk["wait_disk"]
    assert in_fsync["wait_read"] == 0


def test_waits_in_fsync_are_charged_to_no_process(waiters: Waiters) -> None:
    _skip_without_disk(waiters)
    with waiters.start() as program:
        program("wait_disk 20 0")
        parts = {
            SPLITS[charge.part] for charge in waiters.kernel.evidence.charges() if charge.tgid == program.pid
        }
        assert waiters.read(program)["wait_disk", False].calls == 20
    assert "disk" not in parts


def test_the_time_matches_the_callers_clock(waiters: Waiters) -> None:
    with waiters.start() as program:
        (by_caller,) = program("wait_sleep 20 0")
        split = waiters.read(program)["wait_sleep", False]
    assert 20 * 5_000_000 <= split.total_ns <= by_caller
    assert split.parts["running"] + split.parts["runqueue"] + split.parts["sleep"] == split.total_ns


def test_a_call_includes_the_waits_of_nested_calls(waiters: Waiters) -> None:
    with waiters.start() as program:
        program(f"around {CALLS} 0")
        found = waiters.read(program)
    outer, asleep, receiving = found["around", False], found["wait_sleep", True], found["wait_socket", True]
    for part in SPLITS[1:]:
        assert outer.parts[part] >= asleep.parts[part] + receiving.parts[part]
    assert asleep.share_beside_waiting_for_a_cpu("sleep") >= 0.9
    assert outer.parts["sleep"] >= CALLS * 4_000_000
    assert asleep.parts["network"] == 0


def test_sums_are_exact_while_threads_are_moved_stopped_and_read(waiters: Waiters) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    stop = threading.Event()
    with waiters.start() as program:

        def disturb() -> None:
            turn = 0
            while not stop.is_set():
                turn += 1
                os.sched_setaffinity(program.pid, {cpus[turn % len(cpus)]})
                if turn % 8 == 0:
                    os.kill(program.pid, 19)  # SIGSTOP
                    time.sleep(0.002)
                    os.kill(program.pid, 18)  # SIGCONT
                time.sleep(0.001)

        disturber = threading.Thread(target=disturb)
        disturber.start()
        try:
            totals = {"run": 0, "wait_lock": 0}
            calls = 0
            program.send("run 200 2")
            deadline = time.monotonic() + DEADLINE_SECONDS
            while calls < 200:  # read() itself checks the sums
                assert time.monotonic() < deadline, (calls, waiters.kernel.losses(), _state(program.pid))
                found = waiters.read(program).get(("run", False))
                if found is not None:
                    calls += found.calls
                    totals["run"] += found.total_ns
        finally:
            stop.set()
            disturber.join()
            os.kill(program.pid, 18)
        (by_caller,) = program._answer()
    assert calls == 200
    assert totals["run"] <= by_caller


def test_processes_on_one_cpu_wait_for_each_other(waiters: Waiters) -> None:
    cpu = min(os.sched_getaffinity(0))
    with waiters.start() as one, waiters.start() as other:
        for program in (one, other):
            os.sched_setaffinity(program.pid, {cpu})
            program("run 1 1")
        before = {program: _waited_ns(program.pid) for program in (one, other)}
        waiters.kernel.read()
        for program in (one, other):
            program.send("run 40 25")
        for program in (one, other):
            program._answer()
        after = {program: _waited_ns(program.pid) for program in (one, other)}
        counts = read_calls(waiters.kernel)
    assert counts.split_ns is not None
    found = dict(zip((key.tgid for key in counts.keys), counts.split_ns.tolist(), strict=True))
    for program in (one, other):
        split = dict(zip(SPLITS, found[program.pid], strict=True))
        waited = after[program] - before[program]
        # Both processes always wanted the CPU, so each waited for about half of the time. The wait in
        # /proc/PID/schedstat is about the same.
        assert split["runqueue"] >= 0.25 * sum(split.values()), split
        if waited:
            assert 0.9 * waited <= split["runqueue"] <= 1.1 * waited  # two clocks, read at different moments


def test_samples_say_on_which_cpu_a_thread_is(waiters: Waiters) -> None:
    for cpu in os.sched_getaffinity(0):
        with waiters.start() as program:
            os.sched_setaffinity(program.pid, {cpu})
            program("run 1 1")
            waiters.kernel.evidence.works()
            waiters.kernel.evidence.placed()
            program.send("run 20 25")
            for _ in range(10):
                time.sleep(0.02)
                waiters.kernel.evidence.look()
            program._answer()
            placed = [
                (each.cpu, each.times)
                for each in waiters.kernel.evidence.placed()
                if each.tgid == program.pid
            ]
        assert [where for where, _ in placed] == [cpu]
        assert 0 < placed[0][1] <= 10


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text()


def _waited_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])


@contextlib.contextmanager
def counting_three_calls(waiter: Path, *, splits: bool = True) -> Iterator[KernelSide]:
    """Make a kernel side that has counted three calls without splits."""
    kernel = KernelSide(way="multi", slots=16, threads=16, functions=FUNCTIONS, splits=splits)
    try:
        kernel.attach(str(waiter), points(waiter, FUNCTIONS))
        with TracedProgram(waiter) as program:
            program("wait_sleep 3 0")
        counts = read_calls(kernel)
        assert counts.calls.tolist() == [3]
        assert counts.split_ns is None
        yield kernel
    finally:
        kernel.close()


def test_calls_are_counted_on_a_kernel_without_btf_of_tasks(
    waiter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise NoBtfError("the kernel's types know no task_struct")

    monkeypatch.setattr(kernel_side, "task_offsets", none)
    with counting_three_calls(waiter) as kernel:
        assert kernel.no_splits is not None
        assert kernel.no_splits.remedy


def test_calls_are_counted_without_the_scheduler_s_tracepoints(
    waiter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attach = bpf_calls.attach_raw_tracepoint

    def refused(program: int, name: str) -> int:
        if name == "sched_switch":
            raise OSError(2, "No such file or directory")
        return attach(program, name)

    monkeypatch.setattr(probing, "attach_raw_tracepoint", refused)
    with counting_three_calls(waiter) as kernel:
        assert kernel.no_splits is not None
        assert "scheduler" in kernel.no_splits.reason


def test_splits_can_be_left_out(waiter: Path) -> None:
    with counting_three_calls(waiter, splits=False) as kernel:
        assert kernel.no_splits is None
