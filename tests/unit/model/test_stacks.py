"""Tests sums of stacks, and the tree of callers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.model.histograms.hdr import index_of
from stalltop.model.merge.merging import fleet, merge
from stalltop.model.merge.packing import pack
from stalltop.model.merge.sliding import Sliding
from stalltop.model.stacks.callers import callers
from stalltop.model.stacks.stack import StackCount, StackFrame
from stalltop.model.stacks.sums import MOST_STACKS, MovingStacks, added_stacks
from tests.windows.full import STACKS, full_window


def frame(line: int, file: str = "/app/train.py") -> StackFrame:
    return StackFrame(f"f{line}", file, line, "python")


def stack(*lines: int, calls: int = 1, ns: int = 100, reason: str = "slow") -> StackCount:
    return StackCount(
        *("docker:aa", 1, "python3", "driver", "cuLaunchKernel", False, reason, calls, ns),  # type: ignore
        tuple(map(frame, lines)),
    )


def test_equal_stacks_are_added_and_the_largest_come_first() -> None:
    added = added_stacks([[stack(1, 2), stack(3, ns=150)], [stack(1, 2)]])
    assert added == (stack(1, 2, calls=2, ns=200), stack(3, ns=150))


def test_durations_of_calls_are_added_and_leave_again() -> None:
    quick, slow = ((index_of(1_000), 99),), ((index_of(1_000), 1), (index_of(5_000_000), 1))
    sums = MovingStacks()
    sums.add([stack(1, calls=99, ns=99_000)._replace(durations=quick)])
    sums.add([stack(1, calls=2, ns=5_001_000)._replace(durations=slow)])
    (both,) = sums.sum(())
    assert both.durations == ((index_of(1_000), 100), (index_of(5_000_000), 1))
    assert both.p99_ns == 1_003
    sums.remove([stack(1, calls=99, ns=99_000)._replace(durations=quick)])
    (last,) = sums.sum(())
    assert last.durations == slow
    assert last.p99_ns == pytest.approx(5_000_000, rel=0.01)
    assert stack(1).p99_ns is None
    assert stack(1, ns=5_000)._replace(durations=((index_of(5_000), 1),)).p99_ns == 5_000, "not 5,023"


def test_calls_that_hang_count_with_their_age() -> None:
    hour = 3_600 * 10**9
    assert stack(1, ns=hour, reason="open").p99_ns == hour
    returned = stack(1, ns=1_000)._replace(durations=((index_of(1_000), 1),))
    (caller,) = callers([returned, stack(1, ns=hour, reason="open")])
    assert caller.p99_ns == hour


def test_a_caller_has_the_p99_of_all_stacks_through_it() -> None:
    def took(ns: int, *lines: int) -> StackCount:
        return stack(*lines, ns=ns)._replace(durations=((index_of(ns), 1),))

    (caller,) = callers([took(1_000, 1, 9), took(70_000_000, 1, 8), stack(1, 9, reason="on_cpu")])
    assert caller.p99_ns == pytest.approx(70_000_000, rel=0.01)
    assert [one.p99_ns for one in caller.callers] == [pytest.approx(70_000_000, rel=0.01), 1_000]


def test_open_calls_of_earlier_windows_are_not_added() -> None:
    window = full_window()
    first = replace(window, stacks=(stack(1), stack(2, reason="open", ns=5)))
    last = replace(window, start=window.end, stacks=(stack(1), stack(2, reason="open", ns=8)))
    expected = (stack(1, calls=2, ns=200), stack(2, reason="open", ns=8))
    assert merge([first, last]).stacks == expected
    sliding = Sliding(None)
    sliding.push(first)
    assert sliding.push(last).stacks == expected


def test_windows_that_leave_a_sum_take_their_stacks_along() -> None:
    window = full_window()
    sliding = Sliding(window.seconds)
    sliding.push(replace(window, stacks=(stack(1), stack(2))))
    assert sliding.push(replace(window, start=window.end, stacks=(stack(1),))).stacks == (stack(1),)


def test_a_wait_that_goes_on_counts_until_its_last_window_has_left() -> None:
    sums = MovingStacks()
    begins, goes_on = [stack(1, calls=1, ns=10)], [stack(1, calls=0, ns=30)]
    for window in (begins, goes_on, goes_on):
        sums.add(window)
    sums.remove(begins)
    assert sums.sum(()) == (stack(1, calls=0, ns=60),)
    sums.remove(goes_on)
    assert sums.sum(()) == (stack(1, calls=0, ns=30),)
    sums.remove(goes_on)
    assert sums.sum(()) == ()


def test_a_sum_since_the_start_is_bounded() -> None:
    sums = MovingStacks()
    for number in range(1, 5 * MOST_STACKS):
        sums.add([stack(number, ns=number)])
        sums.bound()
    kept = sums.sum(())
    assert len(kept) == MOST_STACKS
    assert kept[0].ns == 5 * MOST_STACKS - 1


def test_packing_keeps_stacks_and_a_fleet_names_their_host() -> None:
    window = full_window()
    assert pack(window).unpack().stacks == STACKS
    assert {one.tenant for one in fleet([window]).stacks} == {f"{window.host}/docker:aa"}


def test_callers_are_a_tree_of_the_innermost_lines() -> None:
    first, second = callers([stack(1, 9, calls=3, ns=300), stack(1, 8, ns=100), stack(2, 9, ns=50)])
    assert (first.frame.line, first.calls, first.ns) == (1, 4, 400)
    assert [(caller.frame.line, caller.ns) for caller in first.callers] == [(9, 300), (8, 100)]
    assert second.frame.line == 2


def test_native_frames_count_where_there_is_no_python_code() -> None:
    native = StackFrame("launch", "/lib/x.so", 0, "native")
    (only,) = callers([stack(1)._replace(frames=(native,))])
    assert only.frame == native
    (python,) = callers([stack(1)._replace(frames=(native, frame(1)))])
    assert python.frame == frame(1)


def test_a_frame_is_named_by_its_line_or_its_function() -> None:
    assert frame(88).place == "train.py:88"
    assert StackFrame("ffi_call", "/lib/libffi.so.8", 0, "native").place == "ffi_call"
    assert StackFrame("", "/lib/libffi.so.8", 0, "native").place == "libffi.so.8"
    assert StackFrame("", "", 0, "jit").place == "unknown code"
