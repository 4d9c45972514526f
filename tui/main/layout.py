"""Computes what the main screen shows from the size of the terminal and from what the user wants.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from stalltop.tui.tables.sizes import BESIDE_FROM

LEAST_WIDTH, LEAST_HEIGHT = 40, 8
"""On a terminal with fewer columns or lines, one line tells that the terminal is too small."""
BARS_FROM = 12
"""Lines of the terminal from which the bars of the host and of the devices are shown."""
ANSWER_LINES, ANSWER_FROM = 2, 18
"""Lines that tell the worst problem, and the lines of the terminal from which there are that many. A smaller
terminal has one."""
TWO_TABLES_FROM = 40
"""Lines of the terminal from which a second table is shown below the first."""
HISTORY_FROM = 160
"""Columns of the terminal from which the lines of devices show a history."""

ROOMY_FROM = 50
"""Lines of the terminal from which the time line is always shown."""

Enlarged = Literal["", "tables", "warnings"]
"""The panel that takes the whole screen; empty: none."""


@dataclass(frozen=True, slots=True)
class ScreenLayout:
    """What the main screen shows and how large it is."""

    small: bool = False
    """Whether the terminal is too small: the screen then shows one line, which says so."""
    shown: frozenset[str] = frozenset()
    """The panels that are shown, by the names in ``settings.PANELS``. The second table is hidden nevertheless
    if it has no content."""
    beside: bool = False
    """Whether two tables stand side by side, not one above the other."""
    answer: int = 0
    """Lines below the header that tell the worst problem."""
    warnings: int = 1
    """Lines of the list of problems while it does not have the focus."""
    devices: int = 1
    """The most lines that the list of devices takes."""
    history: bool = False
    """Whether the lines of devices show a history."""
    enlarged: Enlarged = ""
    roomy: bool = False
    """Whether the terminal has room for lines of little importance, such as an idle time line."""


def most_lines(height: int) -> int:
    """Return the height of the list of problems: 3 lines on a terminal of 24 lines (``height``), 5 on 40, 7
    on 60."""
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
    answer = ANSWER_LINES if height >= ANSWER_FROM and not enlarged else 1
    # The worst problem is told above the list, so the list needs fewer lines.
    lines = height if "table" not in shown else 1 if enlarged else max(most_lines(height) - answer, 1)
    return ScreenLayout(
        shown=frozenset(shown),
        beside=beside,
        answer=answer,
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
