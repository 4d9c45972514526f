"""Cells of CSV files.

Text that a spreadsheet would run as a formula gets an apostrophe in front, as OWASP's page on CSV injection
advises: names come from whoever runs a process.
"""

from __future__ import annotations

import math
from typing import Final

from stalltop.model.text.figures import printable

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""What a formula begins with; the wide forms are taken for the same by some programs."""


def text_cell(text: str) -> str:
    """``text`` as a cell that no program takes for anything else."""
    text = printable(text)
    return "'" + text if text.lstrip().startswith(_FORMULA) else text


def number_cell(value: float | None) -> str:
    """A figure as a cell: empty where it is not known."""
    if value is None or not math.isfinite(value):
        return ""
    return str(value) if isinstance(value, int) else f"{value:.15g}"
