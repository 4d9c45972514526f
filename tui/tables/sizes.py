"""Computes the sizes of one to three tables that share a part of the screen. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BESIDE_FROM = 160
"""Columns of the terminal from which the second table is shown beside the first."""
MOST_SPARE = 10
"""The most cells that a table of containers gives to a table of operations beside it."""
THIRD_FROM = 12
"""The least number of lines of a third table."""
OTHER_LINES = 8
"""Approximate number of lines above and below the tables."""
_BORDER_STEP = 4
"""The border between two tables moves by multiples of this many lines, so that it seldom moves."""


@dataclass(frozen=True, slots=True)
class TablesLayout:
    """What the main screen lets the tables show."""

    two: bool = False
    """Whether there is room for a second table."""
    beside: bool = False
    """Whether two tables stand side by side, not one above the other."""
    share: int = 50
    """Percent of the room that the first of two tables may take."""
    alone: bool = False
    """Whether the tables take the whole screen, so that only one of them is shown."""


def first_cells(width: int, share: int, *, gives: bool = True) -> int:
    """Return the width in cells of the first of two tables side by side. It may take ``share`` percent of
    ``width``.

    With ``gives`` the first table is up to ``MOST_SPARE`` cells narrower, because the second one shows
    operations, which have longer names and one more column of names than containers. Without ``gives`` the
    first table is wider by that number of cells.
    """
    spare = min((width - BESIDE_FROM) // 5, MOST_SPARE)
    return width * share // 100 + (-spare if gives else spare)


def heights(height: int, share: int, first: int, second: int) -> tuple[str, str]:
    """Return the heights of two tables, one above the other, as values of Textual's style sheets. The tables
    need ``first`` and ``second`` lines.

    ``height`` is the height of the terminal; the first table may take ``share`` percent of it. A table gets
    the lines that the other one does not need.
    """
    room = height - OTHER_LINES
    most = room * share // 100
    first, second = in_steps(first), in_steps(second)
    if first < most:
        return f"{first}", "1fr"
    if second < room - most:
        return "1fr", f"{second}"
    return f"{share}fr", f"{100 - share}fr"


def in_steps(lines: int) -> int:
    """Return the height of a table that needs ``lines``, rounded up so that the border below it seldom
    moves."""
    return -(-(lines + 1) // _BORDER_STEP) * _BORDER_STEP


def third_below(height: int, first: int, second: int) -> Literal["", "first", "second"]:
    """Return which of two tables side by side gets a third table below it: the shorter one.

    The two tables need ``first`` and ``second`` lines. Returns an empty string if fewer than ``THIRD_FROM``
    lines of ``height`` would be left for the third table.
    """
    if height - in_steps(min(first, second)) < THIRD_FROM:
        return ""
    return "first" if first <= second else "second"
