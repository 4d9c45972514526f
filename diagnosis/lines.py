"""Adds the lines of source code that make the slow calls to the steps of a problem."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from stalltop.model.chain import Chain, Link
from stalltop.model.stacks.stack import StackCount
from stalltop.model.stacks.sums import MovingStacks
from stalltop.model.window import Window

KEPT_SECONDS: Final = 30.0
"""Time for which stacks count for the lines of a problem, s: few calls are captured in one window."""
MOST_LINES: Final = 3
"""Maximum number of lines that one problem names."""
LEAST_SHARE: Final = 0.05
"""Smallest share of the time in slow calls for which a line is named."""


class SourceLines:
    """Names the lines that make the slow calls of problems, from the stacks of the last windows."""

    def __init__(self) -> None:
        self._windows: deque[tuple[float, tuple[StackCount, ...]]] = deque()
        self._stacks = MovingStacks()

    def add(self, window: Window) -> Window:
        """Returns ``window`` with lines in its open problems."""
        self._windows.append((window.end, window.stacks))
        self._stacks.add(window.stacks)
        while self._windows[0][0] < window.end - KEPT_SECONDS:
            self._stacks.remove(self._windows.popleft()[1])
        if not any(chain.open for chain in window.chains):
            return window
        stacks = self._stacks.sum(window.stacks)
        if not stacks:
            return window
        chains = (_with_lines(chain, stacks) if chain.open else chain for chain in window.chains)
        return replace(window, chains=tuple(chains))


def _with_lines(chain: Chain, stacks: Iterable[StackCount]) -> Chain:
    """Returns ``chain`` with a step for each line that makes its slow calls, behind its first effect."""
    effect = next((at for at, link in enumerate(chain.links) if link.role == "effect"), None)
    lines = lines_of(chain, stacks)
    if effect is None or not lines:
        return chain
    return replace(chain, links=(*chain.links[: effect + 1], *lines, *chain.links[effect + 1 :]))


def lines_of(chain: Chain, stacks: Iterable[StackCount]) -> tuple[Link, ...]:
    """Returns the lines that make the slow calls of the operation of ``chain``, each with its share of the
    time in those calls; those with the most time first."""
    rows = {key[1:] for key in chain.rows}
    lines: dict[str, int] = {}
    total = 0
    for stack in stacks:
        if stack.operation != chain.operation or stack.layer != chain.layer or stack.reason == "sample":
            continue
        if stack.row not in rows if rows else (stack.tenant, stack.pid) != (chain.tenant, chain.pid):
            continue
        total += stack.ns
        text = where(stack)
        if text:
            lines[text] = lines.get(text, 0) + stack.ns
    most = sorted(lines.items(), key=lambda line: (-line[1], line[0]))[:MOST_LINES]
    return tuple(
        Link(role="line", text=text, share=ns / total, tenant=chain.tenant, pid=chain.pid, depth=1)
        for text, ns in most
        if total and ns >= LEAST_SHARE * total
    )


def where(stack: StackCount) -> str:
    """Returns the line that made a call, and the line that called its function: ``in train.py:88 step, from
    train.py:41 loop``; '' if no Python code is known."""
    python = [frame for frame in stack.python if frame.file]
    if not python:
        return ""
    text = f"in {python[0].place} {python[0].function}"
    return f"{text}, from {python[1].place} {python[1].function}" if len(python) > 1 else text
