"""Tests which line became slower between two windows."""

from __future__ import annotations

from dataclasses import replace

from stalltop.model.comparing.line_difference import compare_lines
from stalltop.model.stacks.stack import StackCount, StackFrame
from stalltop.model.window import Window
from tests.windows.full import full_window

FAST, SLOW, NATIVE = (
    *(StackFrame("step", "/a.py", line, "python") for line in (1, 2)),
    StackFrame("memcpy", "/lib/libc.so.6", 0, "native"),
)


def window(times: dict[StackFrame, float], *, reason: str = "on_cpu", pid: int = 100) -> Window:
    row = ("docker:aa", pid, "python3", "host", "host gap", False, reason, 1)
    one = full_window()
    stacks = tuple(
        StackCount(*row, int(1e9 * one.seconds * share), (NATIVE, frame) if frame is not NATIVE else (frame,))  # type: ignore[arg-type]
        for frame, share in times.items()
    )
    return replace(one, stacks=stacks)


def test_lines_that_changed_most_come_first_and_small_changes_are_left_out() -> None:
    then = window({FAST: 0.5, SLOW: 0.1, NATIVE: 0.3})
    found = compare_lines(then, window({FAST: 0.505, SLOW: 0.4}))
    assert [change.frame for change in found] == [NATIVE, SLOW]
    assert [round(change.more_ns_per_s / 1e6) for change in found] == [-300, 300]
    assert round(found[1].then_ns_per_s / 1e6) == 100


def test_without_samples_on_both_sides_no_line_changed() -> None:
    samples = window({FAST: 1.0})
    assert compare_lines(samples, window({})) == ()
    assert compare_lines(window({FAST: 1.0}, reason="slow"), samples) == ()
    assert compare_lines(samples, window({SLOW: 1.0}, pid=9_999)) == (), "its process has no rows"
