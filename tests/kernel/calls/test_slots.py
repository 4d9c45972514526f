"""Tests that slots and thread records of ended processes are reused, and that a lack of them is counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.traced_program import (
    FUNCTIONS,
    TracedProgram,
    calls_of,
    lost,
    points,
    read_calls,
    wait_until,
)

pytestmark = pytest.mark.beside


@pytest.fixture
def small(request: pytest.FixtureRequest, driver: Path) -> Iterator[KernelSide]:
    """Make a kernel side with few slots and thread records, given by the parameter (slots, threads)."""
    slots, threads = request.param
    # Without splits stalltop follows no threads that wake others, so only the test takes slots and records.
    kernel = KernelSide(way="auto", slots=slots, threads=threads, functions=FUNCTIONS, splits=False)
    library = driver.with_name("libtraced.so")
    assert not kernel.attach(str(library), points(library)).failed
    yield kernel
    kernel.close()


@pytest.mark.parametrize("small", [(16, 64)], indirect=True)
def test_slots_of_ended_processes_are_reused(small: KernelSide, driver: Path) -> None:
    for _ in range(20):
        with TracedProgram(driver) as program:
            program("threads 16 plain 1")  # sixteen threads may create the same slot at once
            program("outer 2")
            program("call pushing 5")
            assert small.evidence.tgids() == {program.pid}
        expected = {("plain", False): 16, ("outer", False): 1, ("plain", True): 2, ("pushing", False): 5}
        assert calls_of(small, program.pid) == expected
        small.release(program.pid)
        assert small.evidence.tgids() == set()
    assert lost(small) == {}


@pytest.mark.parametrize("small", [(7, 64)], indirect=True)
def test_calls_over_the_quota_of_slots_are_lost_and_counted(small: KernelSide, driver: Path) -> None:
    with TracedProgram(driver) as program, TracedProgram(driver) as other:
        for name in ("plain", "pushing", "comparing"):
            program(f"call {name} 2")
        program("call marked 7")
        other("call plain 3")
        # The first process has four slots, one of them for the time between calls, and three are left.
        expected = {("plain", False): 5, ("pushing", False): 2, ("comparing", False): 2}
        assert calls_of(small, program.pid, other.pid) == expected
        assert lost(small) == {"no_slot": 7}
        program.end()
        small.release(program.pid)
        other("call marked 4")
        assert calls_of(small, program.pid, other.pid) == {("marked", False): 4}
        assert lost(small) == {}


@pytest.mark.parametrize("small", [(64, 3)], indirect=True)
def test_without_a_free_thread_record_calls_are_lost_and_counted(small: KernelSide, driver: Path) -> None:
    programs = [TracedProgram(driver) for _ in range(4)]
    try:
        for program in programs[:3]:
            program("call plain 1")
        programs[3]("outer 4")
        assert calls_of(small, *(program.pid for program in programs)) == {("plain", False): 3}
        assert lost(small) == {"no_thread": 5}
        programs[0].end()
        programs[3]("outer 4")
        assert calls_of(small, programs[3].pid) == {("outer", False): 1, ("plain", True): 4}
        assert lost(small) == {}
    finally:
        for program in programs:
            program.end()


@pytest.mark.parametrize("small", [(13, 64)], indirect=True)
def test_slots_released_too_early_lose_no_call(small: KernelSide, driver: Path) -> None:
    # This happens if a PID is reused before the monitor has released the process that had it before.
    with TracedProgram(driver) as program:
        program("call plain 3")
        small.release(program.pid)
        assert small.evidence.tgids() == set()
        program("call plain 4")  # the thread still uses the slot in its record
        program("threads 2 plain 5")  # new threads take another slot
        assert calls_of(small, program.pid) == {("plain", False): 17}
        assert small.evidence.tgids() == {program.pid}
        program("call plain 1")
        assert calls_of(small, program.pid) == {("plain", False): 1}
    assert calls_of(small, program.pid) == {}
    small.release(program.pid)
    for _ in range(3):  # the last of seven slots is within the quota only if all others are free again
        with TracedProgram(driver) as program:
            for name in ("plain", "pushing", "comparing", "marked", "jumping"):
                program(f"call {name} 1")
            assert sum(calls_of(small, program.pid).values()) == 6
        small.release(program.pid)
    assert lost(small) == {}


@pytest.mark.parametrize("small", [(64, 64)], indirect=True)
def test_calls_of_many_short_processes_are_counted(small: KernelSide, driver: Path) -> None:
    with TracedProgram(driver) as program:
        children = set()
        calls = 0
        for _ in range(300):
            (child,) = program("fork_inside 3")
            children.add(child)
            if len(children) == 20:
                counts = read_calls(small)
                calls += sum(
                    n
                    for key, n in zip(counts.keys, counts.calls.tolist(), strict=True)
                    if key.tgid in children
                )
                for tgid in small.evidence.tgids() - {program.pid}:
                    small.release(tgid)
                children.clear()
        assert calls == 900
        assert small.evidence.tgids() == {program.pid}
        wait_until(lambda: not small.open_calls(), "no call open")
    assert lost(small) == {}
