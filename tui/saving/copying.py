"""Rows as text for the clipboard: fields between tabs, their heads above them. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from stalltop.formats.tables.sheet import largest
from stalltop.model.chain import Chain
from stalltop.model.window import Window
from stalltop.tui.saving.table import row_at
from stalltop.tui.tables.view import View
from stalltop.widgets.alerts import AlertRow
from stalltop.widgets.strips import printable
from stalltop.widgets.table import TableData

_HEADS = ("WARNING", "WHO", "LOST", "OPERATION", "CULPRIT", "SINCE", "ENDED", "FIX")


def row_text(data: TableData, at: int, window: Window, view: View, chains: Sequence[Chain]) -> str:
    """Two lines: the heads of all columns, also of those out of sight, and the row ``at`` of ``data``.

    A bar of parts is told in words; a bar without a head is left out, as its figure stands beside it.
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
    """The same of a table that is made of figures only."""
    found = zip(data.columns, data.rows[at].cells, strict=True)
    pairs = [(column.title, cell.text) for column, cell in found if column.title]
    return _lines(*zip(*pairs, strict=True))


def alert_text(row: AlertRow) -> str:
    """A line of the warnings: a sentence as it is, a chain with heads."""
    if row.text:
        return printable(row.text)
    fields = (row.title, row.who, row.lost, row.where, row.culprit, row.since, row.ended, row.fix)
    return _lines(_HEADS, fields)


def _lines(*lines: Sequence[str]) -> str:
    # A tab is not printable: none is left within a field.
    return "\n".join("\t".join(printable(field).strip() for field in line) for line in lines)
