"""Every row of every window as a line of CSV: raw figures, units in the heads (docs/export.md)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from stalltop.formats.tables.columns import COLUMNS, Kind, table
from stalltop.model.text.csv_cells import number_cell, text_cell
from stalltop.model.window import Window

_CELL: Final[dict[Kind, Callable[[Any], str]]] = {
    "text": text_cell,
    "count": number_cell,
    "number": number_cell,
    "flag": lambda value: str(int(value)),
}


def pieces(windows: Iterable[Window]) -> Iterator[bytes]:
    """The heads, then the lines of each window."""
    yield _lines([[column.name for column in COLUMNS]])
    for window in windows:
        cells = [
            [_CELL[column.kind](value) for value in values]
            for column, values in zip(COLUMNS, table(window), strict=True)
        ]
        yield _lines(zip(*cells, strict=True))


def _lines(rows: Iterable[Iterable[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
