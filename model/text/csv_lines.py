"""Lines of CSV as in RFC 4180, but with the line ends of Unix, protected against CSV injection.

Names are chosen by other users. Text that a spreadsheet would run as a formula gets an apostrophe in front,
as OWASP's page on CSV injection advises.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from typing import Final, TextIO

from stalltop.model.text.figures import printable

Cell = str | float | None
"""Text, a figure, or None for a figure that is not known. A bool is written as 1 or 0."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""First characters of formulas; some programs accept the full-width forms as well."""


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
