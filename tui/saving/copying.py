"""Formats rows as text for the clipboard, tab-separated and with heads. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from stalltop.formats.tables.sheet import largest
from stalltop.model.chain import Chain
from stalltop.model.window import Window
from stalltop.tui.saving.table import row_at
from stalltop.tui.views.view import View
from stalltop.widgets.alerts import AlertRow
from stalltop.widgets.drawing.strips import printable
from stalltop.widgets.table import TableData

_HEADS = ("PROBLEM", "WHO", "LOST", "OPERATION", "CULPRIT", "SINCE", "ENDED", "FIX")


def row_text(data: TableData, at: int, window: Window, view: View, chains: Sequence[Chain]) -> str:
    """Return two lines: the heads of all columns, also of those that are not visible, and row ``at`` of
    ``data``.

    A bar of the parts of time is written as words. A bar without a head is left out, because its figure is in
    another column.
    """
    heads, fields = [], []
    row = data.rows[at]
    for column, cell in zip(data.columns, row.cells, strict=True):
        if column.id == "split":
            found = row_at(window, view, chains, row.key)
            text = largest(found, len(found.split_ns or ())) if found is not None else ""
        else:
            text = "".join(part for part, _ in cell.parts) or cell.text
        if column.title:
            heads.append(column.title)
            fields.append(text)
    return _lines(heads, fields)


def line_text(data: TableData, at: int) -> str:
    """Return two lines: the heads of all columns, and row ``at`` of ``data``, which has no bars."""
    found = zip(data.columns, data.rows[at].cells, strict=True)
    pairs = [(column.title, cell.text) for column, cell in found if column.title]
    return _lines(*zip(*pairs, strict=True))


def alert_text(row: AlertRow) -> str:
    """Return a line of the list of problems as text. A sentence stays as it is; a problem gets column
    heads."""
    if row.text:
        return printable(row.text)
    fields = (row.title, row.who, row.lost, row.where, row.culprit, row.since, row.ended, row.fix)
    return _lines(_HEADS, fields)


def _lines(*lines: Sequence[str]) -> str:
    # Tabs are not printable, so no field contains one.
    return "\n".join("\t".join(printable(field).strip() for field in line) for line in lines)
