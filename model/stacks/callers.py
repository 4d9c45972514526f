"""The tree of the frames that call, directly or not, the lines that make calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stalltop.model.stacks.stack import StackCount, StackFrame, p99_ns


@dataclass(frozen=True, slots=True)
class CallerNode:
    """A frame of several stacks, with the frames that called it from there."""

    frame: StackFrame
    calls: int
    """Calls whose stack goes through here."""
    ns: int
    """Sum of their durations, ns."""
    p99_ns: int | None
    """99th percentile of their durations (`stack.p99_ns`); None if these are not known."""
    callers: tuple[CallerNode, ...]
    """The frames outside this one, those with the most time first."""


def callers(stacks: Iterable[StackCount]) -> tuple[CallerNode, ...]:
    """Returns the innermost frames of Python code of ``stacks``, each with its callers as a tree; those with
    the most time first. Of stacks without Python code, all frames count."""
    return _callers([(stack.python or stack.frames, stack) for stack in stacks])


def _callers(paths: Iterable[tuple[Sequence[StackFrame], StackCount]]) -> tuple[CallerNode, ...]:
    by_frame: dict[StackFrame, list[tuple[Sequence[StackFrame], StackCount]]] = {}
    for frames, stack in paths:
        if frames:
            by_frame.setdefault(frames[0], []).append((frames[1:], stack))
    found = [
        CallerNode(
            frame,
            sum(stack.calls for _, stack in inside),
            sum(stack.ns for _, stack in inside),
            p99_ns(stack for _, stack in inside),
            _callers(inside),
        )
        for frame, inside in by_frame.items()
    ]
    return tuple(sorted(found, key=lambda caller: (-caller.ns, caller.frame)))
