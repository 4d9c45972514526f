"""The table that was looked at, with all its rows and the figures behind its cells."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from model.chain import Chain
from model.filter import parse
from model.window import Window
from outputs.sheet import Sheet, SheetRow, row_of
from tui.chains import marks
from tui.past import NO_PAST
from tui.table import Line, lines_of
from tui.view import View, title


def sheet_of(window: Window, view: View, chains: Sequence[Chain], *, unicode: bool = True) -> Sheet:
    """``window`` as ``view`` shows it where ``chains`` mark rows; rows of a tree name those above too."""
    found = parse(view.filter)
    lines = lines_of(window, view, found, None, NO_PAST, marks(chains, window, view))
    levels = view.levels()
    by = levels[max((line.level for line in lines), default=0)].by
    text = "".join(part for part, _ in title(view, unicode=unicode))
    return Sheet(text, by, tuple(_row(line, len(by), levels[line.level].own) for line in lines))


def row_at(window: Window, view: View, chains: Sequence[Chain], key: Hashable) -> SheetRow | None:
    """The row ``key`` of the same table; None where it has none."""
    lines = lines_of(window, view, parse(view.filter), None, NO_PAST, marks(chains, window, view))
    return next((_row(line, 0, 0) for line in lines if line.key == key), None)


def _row(line: Line, names: int, own: int) -> SheetRow:
    rows, i = line.rows, line.i
    label = (*rows.labels[i], *[""] * (names - len(rows.labels[i])))
    open_ns, at = int(rows.open_ns[i]), int(rows.at[i])
    if at < 0:
        return SheetRow(label, own, open_ns=open_ns or None)
    return row_of(rows.groups, at, names=label, own=own, open_ns=open_ns, whole_ns=rows.whole_ns)
