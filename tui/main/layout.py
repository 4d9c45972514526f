"""Computes what the main screen shows from the size of the terminal and from what the user wants.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

LEAST_WIDTH, LEAST_HEIGHT = 40, 8
"""On a terminal with fewer columns or lines, one line tells that the terminal is too small."""
BARS_FROM = 12
"""Lines of the terminal from which the bars of the host and of the devices are shown."""
TWO_TABLES_FROM = 40
"""Lines of the terminal from which a second table is shown below the first."""
BESIDE_FROM = 160
"""Columns of the terminal from which the second table is shown beside the first."""
MOST_SPARE = 10
"""The most cells that a table of containers gives to a table of operations beside it."""
THIRD_FROM = 12
"""The least number of lines of a third table."""
HISTORY_FROM = 160
"""Columns of the terminal from which the lines of devices show a history."""

OTHER_LINES = 8
"""Approximate number of lines above and below the tables."""
_BORDER_STEP = 4
"""The border between two tables moves by multiples of this many lines, so that it seldom moves."""
ROOMY_FROM = 50
"""Lines of the terminal from which the time line is always shown."""

Enlarged = Literal["", "tables", "warnings"]
"""The panel that takes the whole screen; empty: none."""


@dataclass(frozen=True, slots=True)
class ScreenLayout:
    """What the main screen shows and how large it is."""

    small: bool = False
    """Whether the terminal is too small for anything but one line about that."""
    shown: frozenset[str] = frozenset()
    """The panels that are shown, by the names in ``settings.PANELS``. The second table also needs content."""
    beside: bool = False
    """Whether two tables stand side by side, not one above the other."""
    warnings: int = 1
    """Lines of the list of problems while it does not have the focus."""
    devices: int = 1
    """The most lines that the list of devices takes."""
    history: bool = False
    """Whether the lines of devices show a history."""
    enlarged: Enlarged = ""
    roomy: bool = False
    """Whether the terminal has room for lines of little importance, such as an idle time line."""


def first_cells(width: int, share: int, *, gives: bool = True) -> int:
    """Return the width of the first of two tables side by side, which may take ``share`` percent of
    ``width``.

    With ``gives`` the first table is up to ``MOST_SPARE`` cells narrower, because the second one shows
    operations, which have longer names and one more column of names than containers. Without ``gives`` the
    first table is wider by that number of cells.
    """
    spare = min((width - BESIDE_FROM) // 5, MOST_SPARE)
    return width * share // 100 + (-spare if gives else spare)


def heights(height: int, share: int, first: int, second: int) -> tuple[str, str]:
    """Return the heights, as Textual's style sheets write them, of a table of ``first`` lines above one of
    ``second`` lines.

    ``height`` is that of the terminal; the first table may take ``share`` percent. A table gets the lines
    that the other one does not need.
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


def most_lines(height: int) -> int:
    """Return the height of the list of problems on a terminal of ``height`` lines: 3 of 24, 5 of 40, 7 of
    60."""
    return min(max(height // 8, 1), 10)


def layout(width: int, height: int, wanted: Collection[str], enlarged: Enlarged = "") -> ScreenLayout:
    """Return what a terminal of ``width`` columns and ``height`` lines shows of the ``wanted`` panels."""
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return ScreenLayout(small=True)
    shown = set(wanted)
    if enlarged or height < BARS_FROM:
        shown -= {"host", "devices"}
    beside = width >= BESIDE_FROM
    if enlarged == "warnings":
        shown = shown - {"table"} | {"warnings"}
    if "table" not in shown or enlarged or not (beside or height >= TWO_TABLES_FROM):
        shown.discard("second")
    lines = height if "table" not in shown else 1 if enlarged else most_lines(height)
    return ScreenLayout(
        shown=frozenset(shown),
        beside=beside,
        warnings=lines,
        devices=max(height // 8, 1),
        history=width >= HISTORY_FROM,
        enlarged=enlarged,
        roomy=width >= HISTORY_FROM and height >= ROOMY_FROM and not enlarged,
    )


def time_shown(layout: ScreenLayout, *, wanted: bool) -> bool:
    """Return whether the time line is shown: if it is ``wanted``, or if there is plenty of room."""
    return not layout.small and (layout.roomy or wanted)


def why_not(panel: str, width: int, height: int) -> str:
    """Return why ``panel`` is not shown on a terminal of this size, although it is wanted; empty if it is
    shown."""
    if panel in layout(width, height, {"table", panel}).shown:
        return ""
    if panel == "second":
        return f"two tables need {TWO_TABLES_FROM} lines or {BESIDE_FROM} columns; here are {width}x{height}"
    return f"it needs {BARS_FROM} lines; here are {height}"
