"""Writes lines of CSV as in RFC 4180, but with Unix line ends, protected against CSV injection.

Other users choose the names of processes and containers. Text that a spreadsheet would run as a formula
gets an apostrophe in front, as OWASP's page on CSV injection advises.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from typing import Final, TextIO

from stalltop.model.text.figures import printable

Cell = str | float | None
"""Text, a figure, or None for an unknown figure. None is written as an empty cell, a bool as 1 or 0."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""Characters with which a formula may begin; some spreadsheets accept the full-width forms as well."""


def write_lines(out: TextIO, rows: Iterable[Iterable[Cell]]) -> None:
    """Writes a line of CSV for each row. ``out`` must not translate line ends."""
    csv.writer(out, lineterminator="\n").writerows(map(_text, row) for row in rows)


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        text = printable(cell)
        return "'" + text if text.lstrip().startswith(_FORMULA) else text
    if cell is None or not math.isfinite(cell):
        return ""
    return str(int(cell)) if isinstance(cell, int) else f"{cell:.15g}"
