"""What the main screen has room for. Pure functions of the size of the terminal and of what is wanted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

LEAST_WIDTH, LEAST_HEIGHT = 40, 8
"""A smaller terminal shows one line that says so."""
BARS_FROM = 12
"""Lines of the terminal from which the host's and the devices' bars are shown."""
TWO_TABLES_FROM = 40
"""Lines from which a second table is shown below the first."""
BESIDE_FROM = 160
"""Columns from which the second table stands beside the first."""
MOST_SPARE = 10
"""Cells that tables of containers leave to tables of operations beside them, at most."""
THIRD_FROM = 12
"""Lines that a third table has at least."""
HISTORY_FROM = 160
"""Columns from which devices have their history beside them."""

OTHER_LINES = 8
"""Lines that two tables leave to what is above and below them, about."""
_BORDER_STEP = 4
"""Lines that the border between two tables moves at once."""
ROOMY_FROM = 50
"""Lines from which the line of time is always shown."""

Enlarged = Literal["", "tables", "warnings"]
"""What has the screen to itself."""


@dataclass(frozen=True, slots=True)
class ScreenLayout:
    """What is shown."""

    small: bool = False
    """Too small for anything but a line that says so."""
    shown: frozenset[str] = frozenset()
    """Panels, by the names of ``settings.PANELS``; a second table also needs something to show."""
    beside: bool = False
    """Two tables stand side by side, not one below the other."""
    warnings: int = 1
    """Lines that the list of what is wrong may take while the keys are elsewhere."""
    devices: int = 1
    """Lines that the devices may take."""
    history: bool = False
    """Devices have their history beside them."""
    enlarged: Enlarged = ""
    roomy: bool = False
    """There is room for what is worth a line only then."""


def first_cells(width: int, share: int, *, gives: bool = True) -> int:
    """Cells of the first of two tables side by side on ``width`` columns, which may take ``share`` percent.

    It ``gives`` some of them to the second where that has longer names and one more column of them, as
    operations have; else it takes as many.
    """
    spare = min((width - BESIDE_FROM) // 5, MOST_SPARE)
    return width * share // 100 + (-spare if gives else spare)


def heights(height: int, share: int, first: int, second: int) -> tuple[str, str]:
    """Heights, in Textual's words, of a table of ``first`` lines above one of ``second`` on a terminal of
    ``height`` lines: the first may take ``share`` percent. What a short one leaves over goes to the other.
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
    """Lines that a table of ``lines`` gets, so that the border below it seldom moves."""
    return -(-(lines + 1) // _BORDER_STEP) * _BORDER_STEP


def third_below(height: int, first: int, second: int) -> Literal["", "first", "second"]:
    """Below which of two tables side by side, of ``first`` and ``second`` lines on ``height``, a third one
    stands: below the shorter, if that leaves room for some rows."""
    if height - in_steps(min(first, second)) < THIRD_FROM:
        return ""
    return "first" if first <= second else "second"


def most_lines(height: int) -> int:
    """Lines of the list of what is wrong on a terminal of ``height`` lines: 3 of 24, 5 of 40, 7 of 60."""
    return min(max(height // 8, 1), 10)


def layout(width: int, height: int, wanted: Collection[str], enlarged: Enlarged = "") -> ScreenLayout:
    """What a terminal of ``width`` columns and ``height`` lines shows of the ``wanted`` panels."""
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
    """Whether the line of time is shown: where it is ``wanted`` by what is done, or where there is room."""
    return not layout.small and (layout.roomy or wanted)


def why_not(panel: str, width: int, height: int) -> str:
    """Why ``panel``, which is wanted, is not shown on a terminal of this size; empty where it is."""
    if panel in layout(width, height, {"table", panel}).shown:
        return ""
    if panel == "second":
        return f"two tables need {TWO_TABLES_FROM} lines or {BESIDE_FROM} columns; here are {width}x{height}"
    return f"it needs {BARS_FROM} lines; here are {height}"
