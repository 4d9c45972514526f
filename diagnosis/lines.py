"""Adds lines of source code to the steps of a problem: of slow calls, of time between calls, and of the
threads that others wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from stalltop.diagnosis.causes import CAUSES
from stalltop.model.chain import Chain, Link
from stalltop.model.stacks.stack import HOLDS, SAMPLED, StackCount
from stalltop.model.stacks.sums import MovingStacks
from stalltop.model.window import Window

KEPT_SECONDS: Final = 30.0
"""Time for which stacks count for the lines of a problem, s: few calls are captured in one window."""
MOST_LINES: Final = 3
"""Maximum number of lines that one problem names."""
LEAST_SHARE: Final = 0.05
"""Smallest share of the time in slow calls for which a line is named."""
_SLOW: Final = frozenset(("slow", "open"))
_LOCKS: Final = frozenset(("holds_lock", "holds_gil"))
_LOCK_CAUSES: Final = frozenset(("lock_contention", "gil", "loader_lock"))
_WORKS: Final = frozenset(("on_cpu", "runqueue", "disk", "memory", "sleep"))
"""What a thread does or waits for itself, while another one waits for it."""
_REASONS_OF: Final = {"running": ("on_cpu",), "lock": ("lock", "gil")}
"""Reasons of samples by part of the split, where their names differ."""


class _WindowStacks(NamedTuple):
    """The stacks of a window."""

    end: float
    """Unix time, s."""
    stacks: tuple[StackCount, ...]
    has_lines: bool
    """Whether a frame has a line of code: only Python's do."""


class SourceLines:
    """Names the lines that make the slow calls of problems, from the stacks of the last windows."""

    def __init__(self) -> None:
        self._windows: deque[_WindowStacks] = deque()
        self._stacks: MovingStacks | None = None
        """The sum of their stacks, while problems are open whose lines may be known."""
        self._summed = float("-inf")
        """When it was last used, Unix time."""

    def add(self, window: Window) -> Window:
        """Returns ``window`` with lines in its open problems."""
        has_lines = any(frame.language == "python" for stack in window.stacks for frame in stack.frames)
        self._windows.append(_WindowStacks(window.end, window.stacks, has_lines))
        if self._stacks is not None:
            self._stacks.add(window.stacks)
        while self._windows[0].end < window.end - KEPT_SECONDS:
            left = self._windows.popleft()
            if self._stacks is not None:
                self._stacks.remove(left.stacks)
        if not any(chain.open for chain in window.chains) or not any(one.has_lines for one in self._windows):
            if window.end - self._summed > KEPT_SECONDS:
                self._stacks = None
            return window
        self._summed = window.end
        if self._stacks is None:
            self._stacks = MovingStacks()
            for one in self._windows:
                self._stacks.add(one.stacks)
        stacks = self._stacks.sum(window.stacks)
        if not stacks:
            return window
        chains = (_with_lines(chain, stacks) if chain.open else chain for chain in window.chains)
        return replace(window, chains=tuple(chains))


def _with_lines(chain: Chain, stacks: Sequence[StackCount]) -> Chain:
    """Returns ``chain`` with steps for the lines that make its effect, behind its first effect, and with a
    step for the line of each other thread that it names."""
    links: list[Link] = []
    effect, told = False, set[int]()
    for link in chain.links:
        links.append(link)
        if link.role == "effect":
            links += () if effect else lines_of(chain, stacks)
            effect = True
        elif link.pid and link.pid not in told and (link.pid != chain.pid or link.role == "culprit"):
            line = line_of_other(chain, link, stacks)
            if line is not None:
                links.append(line)
                told.add(link.pid)
    return replace(chain, links=tuple(links))


def lines_of(chain: Chain, stacks: Iterable[StackCount]) -> tuple[Link, ...]:
    """Returns the lines that make the slow calls of the operation of ``chain``, each with its share of the
    time in those calls; those with the most time first. If the problem is about the time between calls, or
    no slow call has a stack, returns the lines in which its threads lost their time."""
    rows = {key[1:] for key in chain.rows}
    own = [
        stack
        for stack in stacks
        if stack.operation == chain.operation
        and stack.layer == chain.layer
        and (stack.row in rows if rows else (stack.tenant, stack.pid) == (chain.tenant, chain.pid))
    ]
    told = [stack for stack in own if stack.reason in _SLOW and where(stack)] or _in_parts(chain, own)
    total = sum(stack.ns for stack in told)
    most = _most(told)[:MOST_LINES]
    return tuple(
        Link(role="line", text=text, share=ns / total, tenant=chain.tenant, pid=chain.pid, depth=1)
        for text, ns in most
        if total and ns >= LEAST_SHARE * total
    )


def line_of_other(chain: Chain, link: Link, stacks: Iterable[StackCount]) -> Link | None:
    """Returns the line at which the process that ``link`` names keeps the process of ``chain`` waiting: where
    it released the lock, else where it ran or waited itself, else where its own call hangs; None if that is
    not known."""
    own = [stack for stack in stacks if (stack.tenant, stack.pid) == (link.tenant, link.pid) and where(stack)]
    holds = [stack for stack in own if stack.reason in _LOCKS] if chain.cause in _LOCK_CAUSES else []
    same = link.pid == chain.pid
    works = [stack for stack in own if stack.reason in _WORKS and not same]
    hangs = [stack for stack in own if stack.reason == "open" and not same]
    told = holds or works or hangs or ([] if same else [stack for stack in own if stack.reason in HOLDS])
    total = sum(stack.ns for stack in told)
    for text, ns in _most(told)[:1]:
        return Link("line", text, ns / total, tenant=link.tenant, pid=link.pid, depth=link.depth + 1)
    return None


def _in_parts(chain: Chain, stacks: Sequence[StackCount]) -> list[StackCount]:
    """Returns the samples of threads in those parts of their time that the cause of ``chain`` is about; if
    there are none, all samples."""
    samples = [stack for stack in stacks if stack.reason in SAMPLED]
    parts = CAUSES[chain.cause].telling.parts if chain.cause in CAUSES else ()
    wanted = {reason for part in parts for reason in _REASONS_OF.get(part, (part,))}
    return [stack for stack in samples if stack.reason in wanted] or samples


def _most(stacks: Iterable[StackCount]) -> list[tuple[str, int]]:
    """Returns the lines of ``stacks`` with their time, ns; those with the most time first."""
    lines: dict[str, int] = {}
    for stack in stacks:
        text = where(stack)
        if text:
            lines[text] = lines.get(text, 0) + stack.ns
    return sorted(lines.items(), key=lambda line: (-line[1], line[0]))


def where(stack: StackCount) -> str:
    """Returns the line that made a call, and the line that called its function: ``in train.py:88 step, from
    train.py:41 loop``; '' if no Python code is known."""
    python = [frame for frame in stack.python if frame.file]
    if not python:
        return ""
    text = f"in {python[0].place} {python[0].function}"
    return f"{text}, from {python[1].place} {python[1].function}" if len(python) > 1 else text
