"""Tests that a nested call is counted once, as nested, and a call that never returns once, as abandoned."""

from __future__ import annotations

import platform
import time
from pathlib import Path

import psutil
import pytest

from stalltop.probes.maps.open_calls import RawOpenCall
from stalltop.probes.tracer.kernel_side import KernelSide, Way
from tests.kernel.conftest import Traced
from tests.kernel.traced_program import (
    FUNCTIONS,
    OPERATION,
    TracedProgram,
    by_function,
    calls_of,
    lost,
    points,
    read_calls,
    wait_until,
)

pytestmark = pytest.mark.beside


def test_calls_inside_a_call_are_nested(traced: Traced) -> None:
    with traced.start() as program:
        program("outer 25")
        program("call plain 3")
        assert calls_of(traced.kernel, program.pid) == {
            ("outer", False): 1,
            ("plain", True): 25,
            ("plain", False): 3,
        }
    assert lost(traced.kernel) == {}


def test_a_tail_call_is_counted_as_nested(traced: Traced) -> None:
    with traced.start() as program:
        program("call jumping 50")
        assert calls_of(traced.kernel, program.pid) == {("jumping", False): 50, ("plain", True): 50}
    assert lost(traced.kernel) == {}


@pytest.mark.parametrize(
    ("depth", "counted"),
    [(1, 1), (16, 16), (17, 16), (40, 16), (80, 16)],  # the Linux kernel traces at most 64 nested returns
)
def test_recursion_is_counted_up_to_the_depth_of_a_thread_record(
    traced: Traced, depth: int, counted: int
) -> None:
    with traced.start() as program:
        program(f"recursive {depth}")
        program("call plain 1")  # later calls are not affected
        expected = {("recursive", False): 1, ("plain", False): 1}
        if counted > 1:
            expected["recursive", True] = counted - 1
        assert calls_of(traced.kernel, program.pid) == expected
    assert lost(traced.kernel) == ({"too_deep": depth - counted} if depth > counted else {})


@pytest.mark.parametrize(
    ("command", "expected", "abandoned"),
    [
        # Each longjmp leaves a call without a return. The next call detects this; ``call plain 1`` below
        # detects the last one.
        ("longjmp 5", {("plain", False): 1}, 5),
        ("longjmp_deeper 5", {("plain", False): 1}, 10),
        # The call after the jump has the same stack pointer as the call that was left.
        ("longjmp_then_call 5", {("plain", False): 6}, 5),
        ("exit_thread_inside", {("plain", False): 1}, 1),
        ("exec_inside", {("plain", False): 1}, 1),
        ("exec_thread_inside", {("plain", False): 1}, 1),
    ],
)
def test_calls_that_never_return_are_counted_as_abandoned(
    traced: Traced, command: str, expected: dict[tuple[str, bool], int], abandoned: int
) -> None:
    with traced.start() as program:
        program(command)
        program("call plain 1")
        assert calls_of(traced.kernel, program.pid) == expected
        wait_until(lambda: not traced.kernel.open_calls(), "all calls left")
    assert lost(traced.kernel) == {"abandoned": abandoned}


def test_a_call_inside_which_a_process_ends_is_abandoned(traced: Traced) -> None:
    with traced.start() as program:
        program("call plain 2")
        program.send("exit_inside")
        program.process.wait(60)
        assert calls_of(traced.kernel, program.pid) == {("plain", False): 2}
        assert not traced.kernel.open_calls()
    assert lost(traced.kernel) == {"abandoned": 1}


def test_the_open_call_of_a_killed_process_is_reported_once_as_ended(traced: Traced) -> None:
    with traced.start() as program:
        program("call plain 2")
        program("hang")
        wait_until(lambda: len(traced.kernel.open_calls()) == 1, "one call open")
        (call,) = traced.kernel.open_calls()
        told = traced.kernel.ended_calls()
        assert call.tid not in {other.tid for other in told}
        before = time.monotonic_ns()
        program.process.kill()
        program.process.wait(60)
        after = time.monotonic_ns()
        assert calls_of(traced.kernel, program.pid) == {("plain", False): 2}
        assert not traced.kernel.open_calls()
        (ended,) = traced.kernel.ended_calls()
        assert ended._replace(ended_ns=0) == call
        assert before <= ended.ended_ns <= after
        assert not traced.kernel.ended_calls(), "the ended call is reported a second time"
    assert lost(traced.kernel) == {"abandoned": 1}


@pytest.mark.parametrize(
    ("command", "own"), [("fork 7", {}), ("fork_inside 7", {("calling_back", False): 1})]
)
def test_a_forked_child_is_counted_as_another_process(
    traced: Traced, command: str, own: dict[tuple[str, bool], int]
) -> None:
    with traced.start() as program:
        (child,) = program(command)
        counts = read_calls(traced.kernel)
        calls = {
            (key.tgid, key.operation): n for key, n in zip(counts.keys, counts.calls.tolist(), strict=True)
        }
        expected = {(child, OPERATION["plain"]): 7}
        expected |= {(program.pid, OPERATION[name]): n for (name, _), n in own.items()}
        assert calls == expected
    assert lost(traced.kernel) == {}


def test_an_open_call_is_reported_until_it_returns(traced: Traced) -> None:
    with traced.start() as program:
        program("hang")
        found: list[RawOpenCall] = []

        def one_open() -> bool:
            found[:] = traced.kernel.open_calls()
            return len(found) == 1

        wait_until(one_open, "one call open")
        (call,) = found
        assert (call.tgid, call.operation, call.nested) == (program.pid, OPERATION["hanging"], False)
        assert call.tid != program.pid
        assert traced.kernel.open_calls() == found
        assert calls_of(traced.kernel, program.pid) == {}
        program("unhang")
        assert traced.kernel.open_calls() == []
        assert calls_of(traced.kernel, program.pid) == {("hanging", False): 1, ("plain", True): 1}
        program.process.kill()
        program.process.wait(60)
        assert not [call for call in traced.kernel.ended_calls() if call.tgid == program.pid], (
            "a call that returned is reported as ended"
        )
    assert lost(traced.kernel) == {}


def test_an_open_call_is_reported_while_nested_calls_return(traced: Traced) -> None:
    with traced.start() as program:
        program.send("outer 1000000000")
        wait_until(lambda: bool(traced.kernel.open_calls()), "a call open")
        start = traced.kernel.open_calls()[0].start_ns
        inner_starts = set()
        for _ in range(500):
            outer, *inner = traced.kernel.open_calls()
            expected = (program.pid, program.pid, outer.cgroup_id, OPERATION["outer"], False, start)
            assert outer == RawOpenCall(*expected)
            assert len(inner) <= 1
            for call in inner:
                assert (call.operation, call.nested) == (OPERATION["plain"], True)
                assert call.start_ns > start
                inner_starts.add(call.start_ns)
        assert calls_of(traced.kernel, program.pid).keys() == {("plain", True)}
        program.process.kill()
        program.process.wait(60)
        traced.kernel.read()


def test_the_time_of_nested_calls_is_part_of_the_outer(traced: Traced) -> None:
    with traced.start() as program:
        program("outer 200")
        total = by_function(traced.kernel, program.pid, of="total_ns")
        assert total["outer", False] >= total["plain", True]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="return addresses are in unknown places")
@pytest.mark.parametrize("way", ["multi", "perf"])
def test_a_call_that_returned_unseen_does_not_take_later_calls_as_nested(way: Way, driver: Path) -> None:
    library = driver.with_name("libtraced.so")
    places = {point.cookie: point for point in points(library)}
    hanging = places.pop(next(function.id for function in FUNCTIONS if function.symbol == "hanging"))
    kernel = KernelSide(way=way, slots=64, threads=64, functions=FUNCTIONS)
    try:
        assert not kernel.attach(str(library), [*places.values()]).failed
        removed = kernel.attach(str(library), [hanging])
        with TracedProgram(driver) as program:
            program.send("hang_here 5")
            wait_until(lambda: len(kernel.open_calls()) == 1, "the call begun")
            began = kernel.open_calls()[0].start_ns
            removed.close()
            # By perf events, another process ends when the Linux kernel has removed them.
            wait_until(lambda: running_children() == {program.pid}, "the probes removed")
            wait_until(lambda: time.monotonic_ns() - began > 200_000_000, "an old call")
            program("")  # the byte for which the call waits
            assert calls_of(kernel, program.pid) == {("plain", True): 2, ("plain", False): 4}
            assert kernel.open_calls() == []
        assert lost(kernel) == {"abandoned": 1}
    finally:
        kernel.close()


def running_children() -> set[int]:
    children = psutil.Process().children()
    return {child.pid for child in children if child.status() != psutil.STATUS_ZOMBIE}
