"""Writes a sheet as CSV for spreadsheets and scripts: raw figures, with units in the heads."""

from __future__ import annotations

import io
from typing import Final

from stalltop.formats.tables.sheet import Sheet, columns_of
from stalltop.model.text.csv_lines import Cell, write_lines
from stalltop.model.window import SPLITS, Window

_OTHERS: Final = ("bytes", "p99_against_median", "p99_against_normal", "processes")
"""Figures of a row for which printed tables have no room."""


def csv_table(table: Sheet, window: Window) -> str:
    """Return all rows and columns of ``table`` as CSV. Each line also has the host and the time of
    ``window``.

    ``window_start_s`` is Unix time in seconds, and ``share`` is from 0 to 1. ``inside`` is 1 if all calls of
    the row are made inside other traced calls. A figure that is not known is empty.

    If the sheet compares two moments, the column ``compared_with_s`` has the other moment (Unix time in
    seconds), and further columns have the figures of that moment.
    """
    split = any(row.split_ns is not None for row in table.rows)
    figures = [*(column.field for column in columns_of(table)), *_OTHERS]
    heads = [*table.by, *figures, "inside"]
    heads += [f"{name}_ns" for name in SPLITS] if split else []
    heads += ["window_start_s", "window_seconds", "window_host"]
    of: list[Cell] = [window.start, window.seconds, window.host]
    if table.compared_with is not None:
        heads.append("compared_with_s")
        of.append(table.compared_with)
    lines: list[list[Cell]] = [[*heads]]
    for row in table.rows:
        cells: list[Cell] = [*row.names, *(getattr(row, name) for name in figures), row.inside]
        cells += (row.split_ns or (None,) * len(SPLITS)) if split else ()
        lines.append([*cells, *of])
    text = io.StringIO(newline="")
    write_lines(text, lines)
    return text.getvalue()
