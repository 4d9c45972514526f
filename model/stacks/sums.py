"""Adds up the stacks of several windows."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from stalltop.model.stacks.stack import Durations, StackCount

MOST_STACKS: Final = 512
"""Maximum number of stacks of a window: those with the most time are kept."""

_FIGURES_AT: Final = StackCount._fields.index("calls")
"""Index of the field ``calls``, which ``ns`` follows. ``durations`` is the last field."""


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


@dataclass(slots=True)
class _StackSum:
    """Figures of one stack in several windows."""

    calls: int = 0
    ns: int = 0
    durations: dict[int, int] = field(default_factory=dict)
    """Calls by the index of their HDR counter."""
    windows: int = 0
    """Number of windows that have the stack. A wait that continues from an earlier window adds time, but no
    call."""

    def add(self, stack: StackCount, times: int = 1) -> None:
        """Adds the figures of ``stack``, or subtracts them (-1)."""
        self.calls += times * stack.calls
        self.ns += times * stack.ns
        for index, calls in stack.durations:
            left = self.durations.pop(index, 0) + times * calls
            if left:
                self.durations[index] = left
        self.windows += times

    def of(self, stack: StackCount) -> StackCount:
        """Returns ``stack`` with these figures."""
        return _with_figures(stack, self.calls, self.ns, tuple(sorted(self.durations.items())))


class MovingStacks:
    """Sum of the stacks of a sliding range of windows, updated incrementally."""

    def __init__(self) -> None:
        self._sums: dict[StackCount, _StackSum] = {}
        """By the stack without figures."""

    def add(self, stacks: Iterable[StackCount], *, open_ones: bool = False) -> None:
        """Adds the stacks of the newest window, without those of open calls unless ``open_ones`` is set."""
        for stack in stacks:
            if open_ones or stack.reason != "open":
                key = _with_figures(stack)
                found = self._sums.get(key)
                if found is None:
                    found = self._sums[key] = _StackSum()
                found.add(stack)

    def remove(self, stacks: Iterable[StackCount]) -> None:
        """Subtracts the stacks of the oldest window, which `add` was given."""
        for stack in stacks:
            key = _with_figures(stack)
            found = self._sums.get(key)
            if found is not None:
                found.add(stack, -1)
                if found.windows <= 0:
                    del self._sums[key]

    def sum(self, newest: Iterable[StackCount]) -> tuple[StackCount, ...]:
        """Returns the sum, with the open calls of the window ``newest``: those with the most time first, at
        most MOST_STACKS."""
        most = heapq.nlargest(MOST_STACKS, self._sums.items(), key=lambda item: item[1].ns)
        added = [found.of(key) for key, found in most]
        added += [stack for stack in newest if stack.reason == "open"]
        return tuple(sorted(added, key=_most_first)[:MOST_STACKS])

    def bound(self) -> None:
        """Limits the memory of a sum from which no window is removed."""
        if len(self._sums) > 2 * MOST_STACKS:
            self._sums = dict(heapq.nlargest(MOST_STACKS, self._sums.items(), key=lambda item: item[1].ns))


def _with_figures(stack: StackCount, calls: int = 0, ns: int = 0, durations: Durations = ()) -> StackCount:
    """Returns ``stack`` with other figures; several times as fast as ``_replace``."""
    return StackCount._make((*stack[:_FIGURES_AT], calls, ns, *stack[_FIGURES_AT + 2 : -1], durations))


def _most_first(stack: StackCount) -> tuple[int, StackCount]:
    return -stack.ns, stack
