"""The tree of the functions in which threads spent their time, from the outermost function inwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from stalltop.model.stacks.stack import SAMPLED, StackCount, StackFrame
from stalltop.model.window import SPLITS

LEAST_SHARE: Final = 0.005
"""Branches with a smaller share of the whole time are left out."""

Path = tuple[StackFrame, ...]
"""Identifies a branch: the frames from the outermost one to its own."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Samples of threads, and the time for which they were taken."""

    stacks: Sequence[StackCount]
    seconds: float


@dataclass(slots=True)
class Branch:
    """A frame of several stacks. Times are of the frame and of all that it called, in ns per second."""

    path: Path
    parts: list[float] = field(default_factory=lambda: [0.0] * len(SPLITS))
    """By part of a thread's time, as SPLITS."""
    before: float | None = None
    """The time at the moment to compare with; None without one."""
    inside: bool = False
    """Whether the frame called others."""
    unfolded: bool = False
    """Whether these are shown."""

    @property
    def frame(self) -> StackFrame:
        """The frame itself."""
        return self.path[-1]

    @property
    def time(self) -> float:
        """All of its time."""
        return sum(self.parts)

    @property
    def running(self) -> float:
        """The part of its time on a CPU."""
        return self.parts[SPLITS.index("running")]

    @property
    def change(self) -> float:
        """By how much its time has grown since the moment to compare with."""
        return self.time - (self.before or 0.0)


Unfolded = Callable[[Branch, float], bool]
"""Decides, by a branch and its share of the whole time, whether the branches inside it are shown."""


@dataclass(frozen=True, slots=True)
class _Stack:
    """A stack as a path inwards."""

    frames: Path
    part: int
    rate: float
    before: bool


def tree(
    now: Moment, unfolded: Unfolded, *, before: Moment | None = None, words: Sequence[str] = ()
) -> tuple[float, list[Branch]]:
    """Returns the time of all samples in ns per second, and the branches of the tree that are shown, each
    before those inside it; siblings with the most time come first.

    With ``before``, branches have the time at that moment, too, and those that changed most come first. Only
    stacks count that have all ``words`` in functions, files or lines, whatever their case.
    """
    stacks = [*_paths(now, words, before=False)]
    if before is not None:
        stacks += _paths(before, words, before=True)
    whole = sum(stack.rate for stack in stacks if not stack.before)
    most = max(whole, sum(stack.rate for stack in stacks if stack.before))
    return whole, [*_branches(stacks, (), most, unfolded, before is not None)]


def _paths(moment: Moment, words: Sequence[str], *, before: bool) -> Iterator[_Stack]:
    for stack in moment.stacks:
        if stack.reason in SAMPLED and stack.frames and _has(stack, words):
            rate = stack.ns / moment.seconds
            yield _Stack(stack.frames[::-1], SPLITS.index(stack.part), rate, before)


def _has(stack: StackCount, words: Sequence[str]) -> bool:
    texts = [f"{frame.function} {frame.file}:{frame.line}".lower() for frame in stack.frames] if words else []
    return all(any(word.lower() in text for text in texts) for word in words)


def _branches(
    stacks: Iterable[_Stack], path: Path, whole: float, unfolded: Unfolded, comparing: bool
) -> Iterator[Branch]:
    depth = len(path)
    by_frame: dict[StackFrame, list[_Stack]] = {}
    for stack in stacks:
        if len(stack.frames) > depth:
            by_frame.setdefault(stack.frames[depth], []).append(stack)
    found = [(_branch((*path, frame), inside, comparing), inside) for frame, inside in by_frame.items()]
    found.sort(key=lambda one: (-abs(one[0].change) if comparing else -one[0].time, one[0].frame))
    for branch, inside in found:
        share = max(branch.time, branch.before or 0.0) / whole if whole else 0.0
        if share >= LEAST_SHARE:
            branch.unfolded = branch.inside and unfolded(branch, share)
            yield branch
            if branch.unfolded:
                yield from _branches(inside, branch.path, whole, unfolded, comparing)


def _branch(path: Path, stacks: Iterable[_Stack], comparing: bool) -> Branch:
    branch = Branch(path, before=0.0 if comparing else None)
    for stack in stacks:
        if stack.before:
            branch.before = (branch.before or 0.0) + stack.rate
        else:
            branch.parts[stack.part] += stack.rate
        branch.inside |= len(stack.frames) > len(path)
    return branch
