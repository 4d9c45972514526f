"""Compares in which lines of code the threads of two windows spent their time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stalltop.model.stacks.stack import SAMPLED, StackFrame
from stalltop.model.window import Window

LEAST_SHARE: Final = 0.01
"""Smallest change that is listed, as a share of the time of all threads."""


@dataclass(frozen=True, slots=True)
class LineChange:
    """A line of code in two windows. Times are of all threads, running or waiting there, in ns per second."""

    frame: StackFrame
    then_ns_per_s: float
    now_ns_per_s: float

    @property
    def more_ns_per_s(self) -> float:
        """By how much the time has grown."""
        return self.now_ns_per_s - self.then_ns_per_s


def compare_lines(then: Window, now: Window) -> tuple[LineChange, ...]:
    """Returns the lines whose time changed notably, those that changed most first. Empty if a window has no
    samples of threads."""
    before, after = _times(then), _times(now)
    if not before or not after:
        return ()
    least = LEAST_SHARE * max(sum(before.values()), sum(after.values()))
    found = [
        LineChange(frame, before.get(frame, 0.0), after.get(frame, 0.0))
        for frame in before.keys() | after.keys()
    ]
    notable = [change for change in found if abs(change.more_ns_per_s) >= least]
    return tuple(sorted(notable, key=lambda change: (-abs(change.more_ns_per_s), change.frame)))


def _times(window: Window) -> dict[StackFrame, float]:
    """Returns the time in each innermost line of Python code, else in each innermost function, of processes
    that have rows in the window."""
    processes = {(key.tenant, key.pid) for key in window.rows.keys}
    times: dict[StackFrame, float] = {}
    for stack in window.stacks:
        if stack.reason in SAMPLED and (stack.tenant, stack.pid) in processes:
            frame = next(iter(stack.python), stack.frames[0])
            times[frame] = times.get(frame, 0.0) + stack.ns / window.seconds
    return times
