"""Adds up the stacks of several windows."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Final

from stalltop.model.stacks.stack import StackCount

MOST_STACKS: Final = 512
"""Maximum number of stacks of a window: those with the most time are kept."""

_FIGURES_AT: Final = StackCount._fields.index("calls")
"""Index of the field ``calls``, which ``ns`` follows."""


def added_stacks(parts: Iterable[Iterable[StackCount]]) -> tuple[StackCount, ...]:
    """Adds up the stacks of several hosts, or of parts of one window. Those with the most time come first."""
    sums = MovingStacks()
    for part in parts:
        sums.add(part, open_ones=True)
    return sums.sum(())


def stacks_in_time(windows: Sequence[Sequence[StackCount]]) -> tuple[StackCount, ...]:
    """Adds up the stacks of consecutive windows of one host. Of open calls, only those of the last window are
    kept: an open call is in every window while it lasts."""
    sums = MovingStacks()
    for window in windows:
        sums.add(window)
    return sums.sum(windows[-1] if windows else ())


class MovingStacks:
    """Sum of the stacks of a sliding range of windows, updated incrementally."""

    def __init__(self) -> None:
        self._sums: dict[StackCount, list[int]] = {}
        """By the stack without figures: the number of calls, their time, and the number of windows that have
        the stack. A wait that continues from an earlier window adds time, but no call."""

    def add(self, stacks: Iterable[StackCount], *, open_ones: bool = False) -> None:
        """Adds the stacks of the newest window, without those of open calls unless ``open_ones`` is set."""
        for stack in stacks:
            if open_ones or stack.reason != "open":
                found = self._sums.setdefault(_with_figures(stack, 0, 0), [0, 0, 0])
                found[0] += stack.calls
                found[1] += stack.ns
                found[2] += 1

    def remove(self, stacks: Iterable[StackCount]) -> None:
        """Subtracts the stacks of the oldest window, which `add` was given."""
        for stack in stacks:
            key = _with_figures(stack, 0, 0)
            found = self._sums.get(key)
            if found is not None:
                found[0] -= stack.calls
                found[1] -= stack.ns
                found[2] -= 1
                if found[2] <= 0:
                    del self._sums[key]

    def sum(self, newest: Iterable[StackCount]) -> tuple[StackCount, ...]:
        """Returns the sum, with the open calls of the window ``newest``: those with the most time first, at
        most MOST_STACKS."""
        added = [_with_figures(key, calls, ns) for key, (calls, ns, _) in self._sums.items()]
        added += [stack for stack in newest if stack.reason == "open"]
        return tuple(sorted(added, key=_most_first)[:MOST_STACKS])

    def bound(self) -> None:
        """Limits the memory of a sum from which no window is removed."""
        if len(self._sums) > 2 * MOST_STACKS:
            kept = heapq.nlargest(MOST_STACKS, self._sums.items(), key=lambda item: item[1][1])
            self._sums = dict(kept)


def _with_figures(stack: StackCount, calls: int, ns: int) -> StackCount:
    """Returns ``stack`` with other figures; several times as fast as ``_replace``."""
    return StackCount._make((*stack[:_FIGURES_AT], calls, ns, *stack[_FIGURES_AT + 2 :]))


def _most_first(stack: StackCount) -> tuple[int, StackCount]:
    return -stack.ns, stack
