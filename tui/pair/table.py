"""Compares two rows of a table side by side: what each consists of, and where they differ. Pure functions."""

from __future__ import annotations

from stalltop.model.rows.filter import Filter
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.window import Window
from stalltop.tui.columns.catalogue import PAIR_COLUMNS
from stalltop.tui.columns.cells import ColumnStyle
from stalltop.tui.columns.split import legend
from stalltop.tui.keys.actions import key
from stalltop.tui.pair.cells import CELLS
from stalltop.tui.tables.picking import Pair
from stalltop.tui.tables.table import TreeRow, drawn, sorted_by
from stalltop.tui.views.groups import grouped
from stalltop.tui.views.outermost import outermost_ns
from stalltop.tui.views.path import decided, scope
from stalltop.tui.views.view import PLURAL, View
from stalltop.widgets.table import Column, Role, TableData

NAME_CELLS = 15
LEGEND_FROM = 160
"""Least width in cells at which the table explains the letters in the column ``split``."""


def pair_table(
    window: Window,
    pair: Pair,
    *,
    sort: str = "more",
    descending: bool = True,
    width: int,
    glyphs: Glyphs = UNICODE,
    letters: bool = False,
) -> TableData:
    """Return a table of what both rows of ``pair`` consist of, sorted by the column ``sort``. By default the
    largest difference of time comes first.

    With ``letters`` the parts of a call's time are drawn as letters and patterns, for terminals with few
    colours.
    """
    view = pair.view
    a, b = scope(window, pair.a), scope(window, pair.b)
    by = view.levels()[0].by
    rows = grouped(b, by, all_rows=decided(pair.b), whole_ns=outermost_ns(b), against=a)
    order = sorted_by(rows, CELLS[sort].values if sort in CELLS else None, descending)
    lines = [TreeRow(rows, i, 0) for i in order.tolist()]
    name = Column("name", view.by.upper(), NAME_CELLS, right=False, fixed=True, most=44)
    measured = window.rows.split_ns is not None
    shown = [one for one in PAIR_COLUMNS if measured or one.needs != "split"]
    cells = [CELLS[one.id] for one in shown]
    closes: tuple[tuple[str, Role], ...] = ((f"{key('versus')} or Esc closes ", "dim"),)
    told = legend(glyphs=glyphs, letters=letters) if measured and width >= LEGEND_FROM else ()
    return TableData(
        title=_title(pair, view, glyphs),
        columns=(name, *(Column(one.id, one.heading, one.width, one.right) for one in shown)),
        rows=drawn(lines, view, cells, ColumnStyle(glyphs=glyphs, letters=letters), Filter(), {}),
        sort=sort,
        descending=descending,
        empty=(
            "Neither of them has a call in this window.",
            f"Esc goes back, {key('longer')} takes a longer window.",
        ),
        legend=(*told, *closes),
    )


def _title(pair: Pair, view: View, glyphs: Glyphs) -> tuple[tuple[str, Role], ...]:
    parts: list[tuple[str, Role]] = []
    # The steps that both paths share are shown once.
    shared = next(at for at, steps in enumerate(zip(pair.a, pair.b, strict=True)) if steps[0] != steps[1])
    for name, path in (("A ", pair.a), ("   B ", pair.b[shared:])):
        parts += [(name, "dim"), (glyphs.separator.join(step.label for step in path), "accent")]
    return (*parts, ("   ", "dim"), (PLURAL[view.by], "head"))
