"""Draws the tree of lines in which threads spend their time. Pure functions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from stalltop.model.stacks.stack import StackCount, StackFrame
from stalltop.model.stacks.tree import Branch, Moment, Path, tree
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.window import SPLITS, Window
from stalltop.tui.columns.split import bar, legend
from stalltop.tui.keys.actions import key
from stalltop.tui.views.path import Path as RowPath
from stalltop.tui.views.path import below
from stalltop.widgets.table_data import Cell, Column, Role, TableData, TableRow

UNFOLDED_SHARE: Final = 0.2
"""Branches with at least this share of the time are unfolded until the user folds them."""
BAR_CELLS: Final = 30
"""Length in cells of the bar of the branch with the most time."""
LEGEND_FROM: Final = 150
"""Least width in cells at which the letters of bars are explained."""
MUCH: Final = 0.05
"""A change of this part of all time, or more, is coloured."""


@dataclass(frozen=True, slots=True)
class TreeChoices:
    """What the user chose on the page."""

    words: tuple[str, ...] = ()
    """The filter."""
    toggled: frozenset[Path] = field(default_factory=frozenset)
    """Branches that are folded although they have much time, or unfolded although they have little."""
    all_unfolded: bool = False

    def toggle(self, path: Path) -> TreeChoices:
        """Return the choices with the branch ``path`` folded if it was unfolded, or the reverse."""
        return replace(self, toggled=self.toggled ^ {path})

    def shows_inside(self, branch: Branch, share: float) -> bool:
        """Return whether a branch with this share of the time is unfolded."""
        return (self.all_unfolded or share >= UNFOLDED_SHARE) != (branch.path in self.toggled)


def stack_table(
    window: Window,
    rows: RowPath,
    choices: TreeChoices,
    *,
    against: Window | None = None,
    width: int,
    glyphs: Glyphs = UNICODE,
    letters: bool = False,
) -> TableData:
    """Return the tree of the lines in which the threads of the processes in ``rows`` spent their time. With
    ``against``, also how that changed since the moment of that window.

    With ``letters`` the parts of the time are drawn as letters and patterns, for terminals with few colours.
    """
    before = None if against is None else _moment(against, rows)
    whole, branches = tree(_moment(window, rows), choices.shows_inside, before=before, words=choices.words)
    columns = [
        Column("line", "LINE", 30, right=False, fixed=True),
        *(() if against is None else (Column("before", "BEFORE", 8),)),
        Column("time", "TIME/s", 7),
        *(() if against is None else (Column("change", "CHANGE", 8),)),
        Column("share", "SHARE", 5),
        Column("on", "ON CPU", 6),
        Column("bar", "WHERE THE TIME WENT", BAR_CELLS, right=False),
    ]
    most = max((max(branch.time, branch.before or 0.0) for branch in branches), default=0.0)
    drawn = tuple(_row(branch, whole, most, glyphs, letters) for branch in branches)
    return TableData(
        title=_title(rows, choices, whole, against, glyphs),
        columns=tuple(columns),
        rows=drawn,
        sort="time" if against is None else "change",
        empty=_nothing(window, choices),
        legend=legend(_parts(branches), glyphs=glyphs, letters=letters) if width >= LEGEND_FROM else (),
    )


def _moment(window: Window, rows: RowPath) -> Moment:
    return Moment(_stacks(window, rows), window.seconds)


def _stacks(window: Window, rows: RowPath) -> tuple[StackCount, ...]:
    """Return the stacks of the processes that have rows below ``rows``."""
    if not rows:
        return window.stacks
    inside = below(rows, window)
    processes = {(key.tenant, key.pid) for key in window.rows.keys if inside(key)}
    return tuple(stack for stack in window.stacks if (stack.tenant, stack.pid) in processes)


def _parts(branches: Collection[Branch]) -> list[str]:
    return [name for at, name in enumerate(SPLITS) if any(branch.parts[at] for branch in branches)]


def _title(
    rows: RowPath, choices: TreeChoices, whole: float, against: Window | None, glyphs: Glyphs
) -> tuple[tuple[str, Role], ...]:
    name = glyphs.separator.join(step.label for step in rows) or "all processes"
    took = figures.duration(whole, glyphs).strip()
    parts: list[tuple[str, Role]] = [("stacks ", "head"), (name, "accent")]
    parts.append((f"   threads ran and waited {took} a second", "dim"))
    if against is not None:
        parts.append((f"   changes since {figures.clock(against.end)}", "label"))
    if choices.words:
        parts.append((f"   filter: {' '.join(choices.words)}", "label"))
    elif against is None:
        keys = ((key("filter"), "filters"), (key("mark"), "marks"), (key("compare"), "compares"))
        parts.append(("   Enter unfolds  " + "  ".join(f"{name} {does}" for name, does in keys), "dim"))
    return tuple(parts)


def _nothing(window: Window, choices: TreeChoices) -> tuple[str, ...]:
    if choices.words:
        return ("No stack has these words.", f"{key('filter')} changes the filter.")
    if window.stacks:
        return ("No stack of a thread of these processes was read in this window.",)
    return (
        "No stack of a thread was read in this window.",
        "They are of threads that make calls, and of those that they wait for; --stacks off reads none.",
    )


def _row(branch: Branch, whole: float, most: float, glyphs: Glyphs, letters: bool) -> TableRow:
    share = branch.time / whole if whole else 0.0
    depth = len(branch.path) - 1
    sign = " "
    if branch.inside:
        sign = "-" if branch.unfolded else "+"
    label = line_text(branch.frame)
    role: Role = "dim" if branch.frame.language != "python" else "text"
    cells = [Cell(f"{' ' * depth}{sign} {label}", role)]
    if branch.before is not None:
        cells.append(Cell(_time(branch.before, glyphs), "dim"))
    cells.append(Cell(_time(branch.time, glyphs)))
    if branch.before is not None:
        cells.append(_change(branch, whole, glyphs))
    on = branch.running / branch.time if branch.time else 0.0
    cells.append(Cell(figures.percent(100 * share, glyphs)))
    running = figures.percent(100 * on, glyphs) if branch.time else figures.missing(1, glyphs)
    cells.append(Cell(running, "dim"))
    cells.append(Cell("", "", _bar(branch, most, glyphs, letters)))
    return TableRow(branch.path, tuple(cells), label)


def line_text(frame: StackFrame) -> str:
    """Return a frame as a line of the tree: its place, then its function."""
    if frame.language == "jit":
        return f"code compiled at run time  {frame.function}".rstrip()
    return f"{frame.place}  {frame.function}" if frame.line else frame.place


def _time(ns: float, glyphs: Glyphs) -> str:
    return figures.duration(ns, glyphs).strip() if ns else figures.missing(1, glyphs)


def _change(branch: Branch, whole: float, glyphs: Glyphs) -> Cell:
    change = branch.change
    if not change:
        return Cell(figures.missing(1, glyphs), "dim")
    text = f"{'+' if change > 0 else '-'}{figures.duration(abs(change), glyphs).strip()}"
    much = abs(change) >= MUCH * max(whole, 1.0)
    return Cell(text, ("bad" if change > 0 else "good") if much else "dim")


def _bar(branch: Branch, most: float, glyphs: Glyphs, letters: bool) -> tuple[tuple[str, Role], ...]:
    """Return the bar of a branch: as long as its time, with its parts in their colours."""
    length = round(BAR_CELLS * branch.time / most) if most else 0
    if not length and branch.time:
        length = 1
    if not length:
        return ((" " * BAR_CELLS, "text"),)
    parts = np.array([round(part) for part in branch.parts], np.uint64)
    return (*bar(parts, glyphs=glyphs, letters=letters, most=length), (" " * (BAR_CELLS - length), "text"))
