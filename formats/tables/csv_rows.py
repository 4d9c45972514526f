"""Writes CSV with a line for every row of every window: raw figures, with units in the heads
(docs/export.md)."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

from stalltop.formats.tables.columns import COLUMNS, table
from stalltop.model.text.csv_lines import Cell, write_lines
from stalltop.model.window import Window


def pieces(windows: Iterable[Window]) -> Iterator[bytes]:
    """Yield the line of heads, and then the lines of each window."""
    yield _encoded([[column.name for column in COLUMNS]])
    for window in windows:
        yield _encoded(zip(*table(window), strict=True))


def _encoded(rows: Iterable[Iterable[Cell]]) -> bytes:
    text = io.StringIO(newline="")
    write_lines(text, rows)
    return text.getvalue().encode()
