"""Slow calls are kept one by one with all that is known of them, within limits; what is not is counted."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from probes.kernel_side import KernelSide
from probes.operations import Function, Size
from probes.raw import RawKeptCall
from tests.kernel.traced_program import NATIVE, Program, points

FUNCTIONS = (
    Function(1, "work", 10, "driver", Size.ARGUMENT, 2),
    Function(2, "rest", 20, "driver"),
    Function(3, "around", 30, "runtime"),
)
WORK, REST, AROUND = (function.operation for function in FUNCTIONS)
QUICK_NS, SLOW_NS = 2_000, 3_000_000


class Made(NamedTuple):
    """A slow call by the program's own clock."""

    tid: int
    before_ns: int
    after_ns: int
    number: int


@dataclass
class Watched:
    """A kernel side that traces the program, and what it told so far."""

    kernel: KernelSide
    path: Path
    kept: list[RawKeptCall] = field(default_factory=list)
    calls: int = 0
    passed_over: int = 0

    def read(self) -> None:
        """One tick."""
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

    def slow(self, operation: int = WORK) -> list[RawKeptCall]:
        return [call for call in self.kept if call.slow and call.operation == operation]

    def used_to_it(self, program: Program, line: str, seconds: float = 1.5) -> None:
        """Let ``program`` do ``line`` for a while: from then on, its threshold is what it counted."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            program(line)
            self.read()
        self.forget()


@pytest.fixture(scope="module")
def slow_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("slow") / "slow"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-fno-optimize-sibling-calls", "-rdynamic"]
    subprocess.run(["gcc", *flags, "-o", path, NATIVE / "slow.c", "-lpthread"], check=True, timeout=60)
    return path


@pytest.fixture(params=["multi", pytest.param("perf", marks=pytest.mark.perf)])
def watched(request: pytest.FixtureRequest, slow_program: Path) -> Iterator[Watched]:
    kernel = KernelSide(way=request.param, slots=64, threads=64, functions=FUNCTIONS)
    try:
        assert not kernel.attach(str(slow_program), points(slow_program, FUNCTIONS)).failed
        kernel.read()
        kernel.losses()
        yield Watched(kernel, slow_program)
    finally:
        kernel.close()


def made(answer: list[int]) -> list[Made]:
    return [Made(*answer[at : at + 4]) for at in range(0, len(answer), 4)]


def test_every_call_of_a_slow_minority_is_kept(watched: Watched) -> None:
    with Program(watched.path) as program:
        watched.used_to_it(program, f"mixed 4000 0 {QUICK_NS} 0 1")
        calls = made(program(f"mixed 4000 500 {QUICK_NS} {SLOW_NS} 1"))
        watched.read()
    assert len(calls) == 8
    found = {call.arguments[2]: call for call in watched.slow() if call.duration_ns >= SLOW_NS}
    assert watched.calls == 4000
    for call in calls:
        kept = found[1000 + call.number]
        assert (kept.tgid, kept.tid, kept.function) == (program.pid, call.tid, 1)
        assert call.before_ns <= kept.start_ns
        assert kept.start_ns + kept.duration_ns <= call.after_ns
        assert kept.duration_ns >= 0.9 * (call.after_ns - call.before_ns)
        assert kept.arguments[:2] == (SLOW_NS, call.number)
        assert (kept.returned, kept.bytes) == (call.number, 1000 + call.number)
        assert kept.split_ns is not None
        assert sum(kept.split_ns) == kept.duration_ns
        assert not kept.nested
