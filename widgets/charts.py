"""Area charts of figures over time: functions that compute them, and a widget that shows them side by
side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len

from stalltop.model.text.figures import fit
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Line, Part, line_of, printable

LEAST_LINES, MOST_LINES = 3, 18
"""The least and the largest number of lines of one chart, its title included."""
_GAP = 2
"""Cells between two charts."""


def area(values: Sequence[float | None], lines: int, high: float, glyphs: Glyphs = UNICODE) -> list[str]:
    """Draw ``values``, on a scale from 0 to ``high``, as an area chart with one column for each value.

    Returns ``lines`` lines of text, the top one first. A value of None or NaN leaves its column blank. A
    value of 0 fills the smallest part of a cell, to differ from an unknown value.
    """
    steps = glyphs.area_levels
    full = len(steps) - 1
    heights = []
    for value in values:
        if value is None or not math.isfinite(value):
            heights.append(0)
        else:
            share = min(max(value / high, 0.0), 1.0) if high > 0 else 0.0
            heights.append(max(round(share * lines * full), 1))
    return [
        "".join(steps[min(max(height - full * below, 0), full)] for height in heights)
        for below in reversed(range(lines))
    ]


def edges(rows: Sequence[str], row: int) -> list[bool]:
    """Return which cells of row number ``row`` are on the upper edge of the area. Cells below the edge are
    drawn in a weaker colour."""
    above = rows[row - 1] if row else ""
    return [not above or above[at] == " " for at in range(len(rows[row]))]


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure over time, as a chart with a title."""

    title: str
    now: str
    """The current value, as text."""
    values: Sequence[float | None]
    """The values, one for each column, the newest last. ``Charts.cells`` returns the number of columns."""
    high: float
    """The value at the top of the scale."""
    top: str = ""
    """The value at the top of the scale, as text."""
    marked: Sequence[bool] = ()
    """Which values are drawn as a warning, one flag for each of ``values``."""


class Charts(Lines):
    """Shows rows of charts and divides its height among them. Rows for which there is no room are left
    out."""

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self._rows: Sequence[Sequence[Chart]] = ()

    def show(self, rows: Sequence[Sequence[Chart]]) -> None:
        """Show ``rows``. All rows have the same number of charts."""
        self._rows = rows
        self.redraw()

    @staticmethod
    def cells(width: int, number: int) -> int:
        """Return the width in cells of each chart if ``number`` charts stand side by side in ``width``
        cells."""
        return max((width - 2 - _GAP * (number - 1)) // number, 8)

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return the lines of all charts: for each chart its title and its area."""
        rows = self._rows
        if not rows or height < LEAST_LINES or not self.pictures:
            return []
        high = min(max(height // len(rows), LEAST_LINES), MOST_LINES)
        shown: list[Line] = []
        for charts in rows[: height // high]:
            cells = self.cells(width, len(charts))
            columns = [self._chart(chart, cells, high - 1, paint) for chart in charts]
            for line in range(high):
                parts: list[Part] = [(" ", None)]
                for number, column in enumerate(columns):
                    parts += [(" " * _GAP, None)] if number else []
                    parts += column[line]
                shown.append(line_of(parts, width))
        return shown

    def _chart(self, chart: Chart, cells: int, high: int, paint: Palette) -> list[list[Part]]:
        """Return the lines of one chart, each ``cells`` wide."""
        title, now, top = printable(chart.title), printable(chart.now), printable(chart.top)
        room = cells - cell_len(now) - cell_len(top) - 2
        title = fit(title, min(cell_len(title), max(room, 0)), self.glyphs)
        blanks = max(cells - cell_len(title) - 1 - cell_len(now) - cell_len(top), 0)
        head: list[Part] = [
            (title, paint.label),
            (" ", None),
            (now, paint.warn if chart.marked and chart.marked[-1] else paint.text),
            (" " * blanks + top, paint.dim),
        ]
        marked = chart.marked or [False] * len(chart.values)
        lines: list[list[Part]] = []
        rows = area(chart.values, high, chart.high, self.glyphs)
        for number, text in enumerate(rows):
            line: list[Part] = [(" " * (cells - len(text)), None)]
            looks = [
                (paint.warn if wrong else paint.accent) if edge else paint.track
                for wrong, edge in zip(marked, edges(rows, number), strict=True)
            ]
            for style, run in groupby(zip(text, looks, strict=True), key=lambda pair: pair[1]):
                line.append(("".join(letter for letter, _ in run), style))
            lines.append(line)
        return [head, *lines]
