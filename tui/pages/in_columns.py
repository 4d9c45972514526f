"""Arranges the lines of a page in columns, as a newspaper does. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len

from stalltop.widgets.page import PageLine, wrapped

LEAST_WIDTH: Final = 48
"""The least cells of a column."""
GAP: Final = 2
"""Cells between two columns."""
_Row = tuple[tuple[str, str], ...]


def in_columns(lines: Sequence[PageLine], width: int, height: int) -> list[PageLine]:
    """Return ``lines`` in as many columns as fit into ``width`` cells. A column has ``height`` rows. Lines
    that do not fit follow below, in columns again. In one column, return ``lines`` as they are.

    A heading is never the last row of a column, and a line continues in the next column only if it is longer
    than a column.
    """
    count, each = shape(width)
    if count < 2 or height < 2:
        return list(lines)
    columns = _columns(lines, each, height)
    while len(columns) % count:
        columns.append([])
    rows = []
    for first in range(0, len(columns), count):
        beside = columns[first : first + count]
        longest = max(len(column) for column in beside)
        last = first + count == len(columns)
        rows += [
            PageLine(_beside([column[at] if at < len(column) else () for column in beside], each))
            for at in range(longest if last else height)
        ]
    return rows


def shape(width: int) -> tuple[int, int]:
    """Return the number of columns for ``width`` cells, and the width of each in cells."""
    count = max((width + GAP) // (LEAST_WIDTH + GAP), 1)
    return count, (width + GAP) // count - GAP


def rows_of(lines: Sequence[PageLine], width: int) -> int:
    """Return the rows that ``lines`` take in one column of ``width`` cells."""
    return sum(len(wrapped(line, width)) if line.parts else 1 for line in lines)


def _columns(lines: Sequence[PageLine], width: int, height: int) -> list[list[_Row]]:
    """Return the rows of each column."""
    columns: list[list[_Row]] = [[]]
    heading: _Row = ()
    for at, line in enumerate(lines):
        rows = wrapped(line, width) if line.parts else [()]
        needed = len(rows)
        if _is_heading(line) and at + 1 < len(lines):
            needed += len(wrapped(lines[at + 1], width))
        if len(columns[-1]) + needed > height and columns[-1]:
            columns.append([])
            if heading and rows[0] and not _is_heading(line) and height > 2:
                columns[-1].append((*heading, (", continued", "dim")))
        heading = (rows[0] if _is_heading(line) else heading) if line.parts else ()
        for row in rows:
            if not row and not columns[-1]:
                continue  # no column begins with an empty row
            if len(columns[-1]) == height:
                columns.append([])
            columns[-1].append(row)
    return columns


def _is_heading(line: PageLine) -> bool:
    return bool(line.parts) and line.parts[0][1] == "head"


def _beside(cells: Sequence[_Row], width: int) -> _Row:
    """Return one row with ``cells`` side by side, each ``width`` cells wide."""
    row: list[tuple[str, str]] = []
    for at, cell in enumerate(cells):
        row += cell
        if at + 1 < len(cells):
            used = sum(cell_len(text) for text, _ in cell)
            row.append((" " * (width - used + GAP), "text"))
    return tuple(row)
