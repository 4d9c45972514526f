"""Tests captured calls: slow calls and a random sample up to their limits, and the count of all other
calls."""

from __future__ import annotations

import mmap
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from stalltop.model.window import SPLITS
from stalltop.probes.layout import KEPT_CALL, Size
from stalltop.probes.maps import kept_calls
from stalltop.probes.maps.raw import RawCapturedCall
from stalltop.probes.operations import Function
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.traced_program import NATIVE, TracedProgram, points, wait_until

FUNCTIONS = (
    Function(1, "work", 10, "driver", Size.ARGUMENT, 2),
    Function(2, "rest", 20, "driver"),
    Function(3, "around", 30, "runtime"),
)
WORK, REST, AROUND = (function.operation for function in FUNCTIONS)
QUICK_NS, SLOW_NS = 2_000, 3_000_000
MOST = 20


class SlowCall(NamedTuple):
    """A slow call, timed by the program's own clock."""

    tid: int
    before_ns: int
    after_ns: int
    number: int


@dataclass
class CaptureReader:
    """Reads a kernel side that traces native/slow.c, and collects the captured calls that it has reported."""

    kernel: KernelSide
    path: Path
    kept: list[RawCapturedCall] = field(default_factory=list)
    calls: int = 0
    passed_over: int = 0

    def read(self) -> None:
        """Read the counts and captured calls since the previous read."""
        counts = self.kernel.read()
        self.calls += sum(
            calls
            for key, calls in zip(counts.keys, counts.calls.tolist(), strict=True)
            if not key.between_calls
        )
        self.passed_over += counts.passed_over
        self.kept += self.kernel.kept_calls(time.monotonic_ns())

    def forget(self) -> None:
        self.read()
        self.kept.clear()
        self.calls = self.passed_over = 0

    def slow(self, operation: int = WORK) -> list[RawCapturedCall]:
        return [call for call in self.kept if call.slow and call.operation == operation]

    def samples(self) -> list[RawCapturedCall]:
        return [call for call in self.kept if not call.slow]

    def threshold(self, pid: int, operation: int) -> int:
        """Return the duration in ns from which a call of ``operation`` by the process ``pid`` counts as
        slow, in the slots that counted such calls before the latest read."""
        programs = self.kernel._programs
        slots, _ = self.kernel._slots.risen
        owners = programs.owners[slots]
        row = (owners["operation"] == operation) & (owners["tgid"] == pid)
        return int(programs.slots.array["slow_ns"][slots[row]].max())

    def call_slow_from(self, ns: int, *, most: int = 1000) -> None:
        """Until the next read, capture calls of at least ``ns``, at most ``most`` per second."""
        self.forget()
        programs = self.kernel._programs
        used = np.flatnonzero(programs.owners["operation"])
        programs.slots.reach(int(used.max(initial=0)) + 1)
        programs.slots.array["slow_ns"][used], programs.slots.array["kept"][used] = ns, 0
        programs.keeping["slow"] = 0
        programs.keeping["most_slow"] = programs.keeping["most_of_slot"] = most
        self.kernel.losses()


@pytest.fixture(scope="module")
def slow_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("slow") / "slow"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-fno-optimize-sibling-calls", "-rdynamic"]
    subprocess.run(["gcc", *flags, "-o", path, NATIVE / "slow.c", "-lpthread"], check=True, timeout=60)
    return path


@pytest.fixture(scope="module", params=["multi", pytest.param("perf", marks=pytest.mark.perf)])
def kernel_side(request: pytest.FixtureRequest, slow_program: Path) -> Iterator[KernelSide]:
    kernel = KernelSide(way=request.param, slots=256, threads=64, functions=FUNCTIONS)
    try:
        assert not kernel.attach(str(slow_program), points(slow_program, FUNCTIONS)).failed
        yield kernel
    finally:
        kernel.close()


@pytest.fixture
def watched(kernel_side: KernelSide, slow_program: Path) -> CaptureReader:
    """Give each test a reader with the default limits of captured calls."""
    keeping = kernel_side._programs.keeping
    keeping["most_slow"], keeping["most_of_slot"] = kept_calls.SLOW_A_SECOND, kept_calls.MOST_OF_SLOT
    keeping["slow"] = keeping["samples"] = 0
    watched = CaptureReader(kernel_side, slow_program)
    watched.forget()
    kernel_side.losses()
    return watched


def made(answer: list[int]) -> list[SlowCall]:
    return [SlowCall(*answer[at : at + 4]) for at in range(0, len(answer), 4)]


@pytest.mark.beside
def test_every_call_of_a_slow_minority_is_captured(watched: CaptureReader) -> None:
    with TracedProgram(watched.path) as program:
        program(f"mixed 4000 0 {QUICK_NS} 0 1")
        watched.call_slow_from(SLOW_NS)
        calls = made(program(f"mixed 4000 500 {QUICK_NS} {SLOW_NS} 1"))
        watched.read()
    assert len(calls) == 8
    found = {call.arguments[2]: call for call in watched.slow()}
    assert watched.calls == 4000
    for call in calls:
        kept = found[1000 + call.number]
        assert (kept.tgid, kept.tid, kept.function) == (program.pid, call.tid, 1)
        assert call.before_ns <= kept.start_ns
        assert kept.start_ns + kept.duration_ns <= call.after_ns
        assert kept.duration_ns >= SLOW_NS
        assert kept.arguments[:2] == (SLOW_NS, call.number)
        assert (kept.returned, kept.bytes) == (call.number, 1000 + call.number)
        assert kept.split_ns is not None
        assert sum(kept.split_ns) == kept.duration_ns
        assert not kept.nested


@pytest.mark.beside
def test_captured_calls_have_splits(watched: CaptureReader) -> None:
    with TracedProgram(watched.path) as program:
        program("rest 4 8000000")
        watched.read()
        counts = watched.slow(REST) + [call for call in watched.kept if call.operation == REST]
    assert counts
    for call in counts:
        assert call.split_ns is not None
        parts = dict(zip(SPLITS, call.split_ns, strict=True))
        assert sum(call.split_ns) == call.duration_ns
        assert parts["sleep"] >= 1_000_000
        assert parts["running"] > 0


@pytest.mark.beside
def test_nested_calls_are_captured_as_nested(watched: CaptureReader) -> None:
    with TracedProgram(watched.path) as program:
        program("around 1 5000000")
        watched.read()
    (outer,) = [call for call in watched.kept if call.operation == AROUND]
    inner = [call for call in watched.kept if call.nested]
    assert not outer.nested
    assert {call.operation for call in inner} == {WORK, REST}
    for call in inner:
        assert outer.start_ns < call.start_ns
        assert call.start_ns + call.duration_ns < outer.start_ns + outer.duration_ns
    # Each captured call has the arguments of that call, although nested calls overwrite the registers.
    assert {call.arguments[0] for call in (outer, *inner)} == {5_000_000}
    assert outer.split_ns is not None
    asleep = next(call for call in inner if call.operation == REST)
    assert asleep.split_ns is not None
    sleep = SPLITS.index("sleep")
    assert outer.split_ns[sleep] >= asleep.split_ns[sleep] > 0


@pytest.mark.beside
def test_slow_calls_of_every_thread_are_captured(watched: CaptureReader) -> None:
    with TracedProgram(watched.path) as program:
        program(f"mixed 4000 0 {QUICK_NS} 0 1")
        watched.call_slow_from(SLOW_NS)
        calls = made(program(f"mixed 1000 500 {QUICK_NS} {SLOW_NS} 4"))
        watched.read()
    assert len(calls) == 8
    assert len({call.tid for call in calls}) == 4
    kept = [call for call in watched.slow() if call.arguments[0] == SLOW_NS]
    assert sorted((call.tid, call.arguments[1]) for call in kept) == sorted(
        (call.tid, call.number) for call in calls
    )


@pytest.mark.beside
def test_a_million_slow_calls_are_counted_and_captured_within_limits(watched: CaptureReader) -> None:
    with TracedProgram(watched.path) as program:
        program(f"mixed 100 0 {QUICK_NS} 0 1")
        watched.call_slow_from(1, most=MOST)
        began = time.monotonic()
        program("mixed 500000 0 0 0 2")
        took = time.monotonic() - began
        watched.read()
        lost = watched.kernel.losses()
    assert watched.calls == 1_000_000
    assert len(watched.slow()) + watched.passed_over == 1_000_000
    # The limit applies to each second of the clock. The first and the last second may be partial, and two
    # CPUs that check the limit at once may exceed it.
    assert MOST <= len(watched.slow()) <= (MOST + 2) * (took + 2)
    assert not any(lost[name] for name in ("no_ring", "no_slot", "no_thread", "missed"))


@pytest.mark.beside
def test_a_full_ring_is_counted_as_loss_and_used_again(slow_program: Path) -> None:
    kernel = KernelSide(way="multi", slots=64, threads=64, functions=FUNCTIONS, ring_bytes=mmap.PAGESIZE)
    watched = CaptureReader(kernel, slow_program)
    room = mmap.PAGESIZE // (KEPT_CALL.itemsize + 8)
    try:
        assert not kernel.attach(str(slow_program), points(slow_program, FUNCTIONS)).failed
        with TracedProgram(slow_program) as program:
            program(f"mixed 100 0 {QUICK_NS} 0 1")
            watched.call_slow_from(1, most=10_000)
            calls = room + 80
            program(f"mixed {calls} 1 0 1000 1")
            watched.read()
            lost = kernel.losses()["no_ring"]
            assert room - 1 <= len(watched.slow()) <= room
            assert len(watched.slow()) + lost == len(watched.slow()) + watched.passed_over == calls
            # Records are written across the end of the ring many times: none is cut, duplicated or lost.
            for _ in range(20):
                watched.call_slow_from(1)
                slow_calls = made(program("mixed 15 1 0 1000 1"))
                watched.read()
                assert [call.arguments[1] for call in watched.slow()] == list(range(1, 16))
                for call, kept in zip(slow_calls, watched.slow(), strict=True):
                    assert call.before_ns <= kept.start_ns < call.after_ns
    finally:
        kernel.close()


def test_thresholds_follow_the_durations_of_a_row(
    watched: CaptureReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not marked ``beside``: while other tests run, the program is preempted so often that no threshold gets
    # short.
    monkeypatch.setattr(kept_calls, "MEMORY_SECONDS", 0.2)
    with TracedProgram(watched.path) as program:

        def threshold_after(line: str) -> int:
            program(line)
            watched.read()
            return watched.threshold(program.pid, WORK)

        quick, slow = "mixed 3000 0 2000 0 1", "mixed 100 0 500000 0 1"
        wait_until(lambda: threshold_after(quick) < 300_000, "a threshold for quick calls")
        wait_until(lambda: threshold_after(slow) > 500_000, "a threshold for slow calls")
        wait_until(lambda: threshold_after(quick) < 300_000, "a threshold for quick calls again")


@pytest.mark.beside
def test_some_calls_are_captured_at_random(watched: CaptureReader) -> None:
    with TracedProgram(watched.path) as program:

        def taken() -> bool:
            program("mixed 3000 0 2000 0 1")
            watched.read()
            return len(watched.samples()) >= 8

        wait_until(taken, "eight randomly captured calls")
    samples = watched.samples()
    assert len({call.start_ns for call in samples}) == len(samples)
    assert all(call.arguments[0] == QUICK_NS for call in samples)


@pytest.mark.beside
def test_calls_are_reported_in_the_window_in_which_they_end(watched: CaptureReader) -> None:
    with TracedProgram(watched.path) as program:
        program("rest 1 1000000")
        watched.kernel.read()
        assert watched.kernel.kept_calls(0) == []
        now = time.monotonic_ns()
        program("rest 1 1000000")
        first = watched.kernel.kept_calls(now)
        second = watched.kernel.kept_calls(time.monotonic_ns())
    assert len(first) == 1
    assert first[0].start_ns + first[0].duration_ns <= now
    assert all(call.start_ns >= now for call in second)
    assert watched.kernel.kept_calls(time.monotonic_ns()) == []


@pytest.mark.beside
def test_calls_are_captured_without_splits_too(slow_program: Path) -> None:
    kernel = KernelSide(way="multi", slots=64, threads=64, functions=FUNCTIONS, splits=False)
    try:
        assert not kernel.attach(str(slow_program), points(slow_program, FUNCTIONS)).failed
        with TracedProgram(slow_program) as program:
            program("rest 1 1000000")
            kernel.read()
            (call,) = kernel.kept_calls(time.monotonic_ns())
        assert call.split_ns is None
        assert call.duration_ns >= 1_000_000
    finally:
        kernel.close()
