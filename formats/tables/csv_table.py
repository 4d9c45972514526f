"""A table as CSV: raw figures, their units in the heads, for spreadsheets and scripts.

RFC 4180 but for the ends of lines, which are those of Unix.
"""

from __future__ import annotations

import csv
import io
from typing import Final

from stalltop.formats.tables.sheet import Sheet, SheetRow, columns_of
from stalltop.model.text.csv_cells import number_cell, text_cell
from stalltop.model.window import SPLITS, Window

_OTHERS: Final = ("bytes", "p99_against_median", "p99_against_normal", "processes")
"""Figures of a row that printed tables have no room for."""


def csv_table(table: Sheet, window: Window) -> str:
    """All rows and columns of ``table``, and in every row of which ``window`` they are.

    ``window_start_s`` is in Unix seconds; ``share`` from 0 to 1; ``inside`` is 1 where all calls were made
    inside other traced calls. What is not known is empty. A table that compares says with which moment
    (``compared_with_s``, in Unix seconds too), and what was then.
    """
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n").writerow
    split = any(row.split_ns is not None for row in table.rows)
    figures = [*(column.field for column in columns_of(table)), *_OTHERS]
    heads = [*table.by, *figures, "inside"]
    heads += [f"{name}_ns" for name in SPLITS] if split else []
    heads += ["window_start_s", "window_seconds", "window_host"]
    write([*heads, "compared_with_s"] if table.compared_with is not None else heads)
    of = [number_cell(window.start), number_cell(window.seconds), text_cell(window.host)]
    of += [number_cell(table.compared_with)] if table.compared_with is not None else []
    for row in table.rows:
        cells = [text_cell(name) for name in row.names]
        cells += [number_cell(getattr(row, name)) for name in figures]
        cells.append(str(int(row.inside)))
        cells += _parts(row) if split else []
        write(cells + of)
    return text.getvalue()


def _parts(row: SheetRow) -> list[str]:
    return [str(ns) for ns in row.split_ns] if row.split_ns is not None else [""] * len(SPLITS)
