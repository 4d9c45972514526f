"""Makes the sheet of a table on the screen, for a file: all rows of the table, with the figures of their
cells."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from stalltop.formats.tables.sheet import Sheet, SheetRow, row_of
from stalltop.model.chain import Chain
from stalltop.model.rows.filter import parse
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.window import Window
from stalltop.tui.past.moments import Picture
from stalltop.tui.past.times import changes_text
from stalltop.tui.problems.rows import row_losses
from stalltop.tui.tables.table import TreeRow, lines_of
from stalltop.tui.views.groups import Grouped
from stalltop.tui.views.trends import NO_TRENDS, RowTrends
from stalltop.tui.views.view import View, title


def sheet_of(
    window: Window,
    view: View,
    chains: Sequence[Chain],
    against: Picture | None = None,
    past: RowTrends = NO_TRENDS,
    glyphs: Glyphs = UNICODE,
) -> Sheet:
    """Return the sheet of ``window`` as ``view`` shows it.

    ``chains`` mark rows; a view that shows only marked rows needs them. ``against`` is the moment to compare
    with. ``past`` has the earlier figures of rows. Rows of a tree include the names of their parents.
    """
    lines = _lines(window, view, chains, against, past)
    levels = view.levels()
    by = levels[max((line.level for line in lines), default=0)].by
    text = "".join(part for part, _ in title(view, glyphs))
    rows = tuple(_row(line, len(by), levels[line.level].own) for line in lines)
    if against is None:
        return Sheet(text, by, rows)
    return Sheet(text + changes_text(against), by, rows, against.at)


def row_at(window: Window, view: View, chains: Sequence[Chain], key: Hashable) -> SheetRow | None:
    """Return the row ``key`` of the table that ``view`` shows of ``window``; None if there is no such row."""
    return next(
        (_row(line, 0, 0) for line in _lines(window, view, chains, None, NO_TRENDS) if line.key == key), None
    )


def _lines(
    window: Window, view: View, chains: Sequence[Chain], against: Picture | None, past: RowTrends
) -> Sequence[TreeRow]:
    before = None if against is None else against.window
    found = row_losses(chains, window, view)
    return lines_of(window, view, parse(view.filter), before, past, found.marks, found.lost_ms_per_s)


def _row(line: TreeRow, names: int, own: int) -> SheetRow:
    rows, i = line.rows, line.i
    label = (*rows.labels[i], *[""] * (names - len(rows.labels[i])))
    open_ns, at = int(rows.open_ns[i]), int(rows.at[i])
    row = SheetRow(label, own, open_ns=open_ns or None)
    if at >= 0:
        row = row_of(rows.groups, at, names=label, own=own, open_ns=open_ns, whole_ns=rows.whole_ns)
        row = replace(
            row,
            p99_against_median=float(rows.changes[i]),
            p99_against_normal=float(rows.against_normal[i]),
            processes=int(rows.processes[i]),
        )
    return _compared(row, rows, i)


def _compared(row: SheetRow, rows: Grouped, i: int) -> SheetRow:
    """Add the figures of the other moment to ``row`` if the table compares two moments."""
    found = rows.difference
    if found is None:
        return row
    then = found.then
    at = int(then.at[i])
    row = replace(row, lost_ns_per_s=float(found.lost_ns_per_s[i]))
    if at < 0 or not then.groups.calls[at]:
        return row
    return replace(
        row,
        calls_per_s_before=float(then.calls_per_s[i]),
        p50_before_ns=int(then.groups.p50_ns[at]),
        p99_before_ns=int(then.groups.p99_ns[at]),
    )
