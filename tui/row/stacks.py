"""The section about the lines of source code that make the calls of a row. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stalltop.model.row_key import RowKey
from stalltop.model.stacks.callers import CallerNode, callers
from stalltop.model.stacks.stack import SAMPLED, StackCount, StackFrame
from stalltop.model.text import figures
from stalltop.tui.pages.sections import Frame, Section, heading, more, note
from stalltop.tui.row.facts import RowFacts
from stalltop.tui.views.path import below, decided
from stalltop.widgets.drawing.magnitude import brightness
from stalltop.widgets.page import PageLine

MOST_LINES: Final = 16
"""The most lines of the tree."""
LEAST_SHARE: Final = 0.02
"""Branches with a smaller share of the time are not shown."""


def where_from(facts: RowFacts, frame: Frame) -> Section:
    """Return the lines that made the row's captured calls, each with the lines that called it, as a tree; of
    the time between calls, the lines in which it was spent.

    Returns an empty section if the window has no stacks.
    """
    if not facts.window.stacks:
        return Section("stacks", ())
    stacks = _of_row(facts)
    about = "slow calls by the line that made them: share of their time, calls, p99; below: its callers"
    none = "the stack of none of its calls was read"
    if facts.between:
        about = "this time by line: share, periods and waits, mean; below: its callers"
        none = "no stack was read in this time"
    lines = [heading("Where from", about)]
    whole = sum(stack.ns for stack in stacks)
    if not whole:
        return Section("stacks", (*lines, note(none)))
    rows = list(_tree(callers(stacks), whole))
    shown = rows[:MOST_LINES]
    lines += [_line(caller, depth, whole, frame) for caller, depth in shown]
    lines += more(len(rows) - len(shown))
    lines += [note(f"incomplete: {cut}") for cut in sorted({stack.cut for stack in stacks if stack.cut})]
    return Section("stacks", tuple(lines))


def _of_row(facts: RowFacts) -> list[StackCount]:
    """Return the stacks of the row's slow calls or, if it is about the time between calls, the samples of its
    threads. Nested calls are among them only if the path contains an operation or a layer."""
    own, all_calls = below(facts.path, facts.window), decided(facts.path)
    wanted = SAMPLED if facts.between else {"slow", "open"}
    found = []
    for stack in facts.window.stacks:
        key = RowKey(facts.window.host, *stack.row)
        if stack.reason in wanted and (all_calls or key.outermost) and own(key):
            found.append(stack)
    return found


def _tree(found: tuple[CallerNode, ...], whole: int, depth: int = 0) -> Iterator[tuple[CallerNode, int]]:
    """Yield the callers and how far they are indented. Callers that are the only ones of their callee are not
    indented further."""
    shown = [caller for caller in found if caller.ns >= LEAST_SHARE * whole]
    for caller in shown:
        yield caller, depth
        yield from _tree(caller.callers, whole, depth + (len(caller.callers) > 1 or not depth))


def _line(caller: CallerNode, depth: int, whole: int, frame: Frame) -> PageLine:
    mean = caller.ns / caller.calls if caller.calls else None
    each = mean if caller.p99_ns is None else caller.p99_ns
    front = f"  {figures.percent(100 * caller.ns / whole, frame.glyphs)} {figures.count(caller.calls)} "
    took = figures.duration(each, frame.glyphs)
    indent = "  " * (depth + 1)
    name, place = _named(caller.frame)
    return PageLine(
        (
            (front, "label"),
            (took, brightness(each)),
            (indent, "text"),
            (place, "text" if depth else "accent"),
            (f"  {name}" if name else "", "text"),
            (f"  {caller.frame.file}" if caller.frame.line else "", "dim"),
        ),
        indent=len(front) + len(took) + len(indent) + 2,
    )


def _named(frame: StackFrame) -> tuple[str, str]:
    """Return the function and the place of a frame."""
    if frame.language == "jit":
        return frame.function, "code compiled at run time"
    return (frame.function if frame.line else ""), frame.place
