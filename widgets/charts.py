"""Figures over time as areas of several lines, side by side. Pure functions, and a widget of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len
from textual.strip import Strip

from stalltop.model.text.figures import fit
from stalltop.widgets.lines import Lines
from stalltop.widgets.palette import Palette
from stalltop.widgets.strips import Part, printable, strip_of

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ASCII = " ..:::###"
LEAST_LINES, MOST_LINES = 3, 18
"""Lines of one chart with its title."""
_GAP = 2
"""Cells between two charts."""


def area(values: Sequence[float | None], lines: int, high: float, *, unicode: bool = True) -> list[str]:
    """``values`` from 0 to ``high``, one column each, as so many lines of text, the highest first.

    A value that is not known is a gap; one of 0 is drawn as next to nothing, as it is none.
    """
    steps = _EIGHTHS if unicode else _ASCII
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
    """Which cells of a row of an area are its upper edge: what is below them is drawn less loud."""
    above = rows[row - 1] if row else ""
    return [not above or above[at] == " " for at in range(len(rows[row]))]


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure over time."""

    title: str
    now: str
    """What it is now."""
    values: Sequence[float | None]
    """One for each column of ``Charts.cells``, the newest last."""
    high: float
    """End of the scale."""
    top: str = ""
    """The same for a person."""
    marked: Sequence[bool] = ()
    """Columns in which something was wrong with it."""


class Charts(Lines):
    """Shows rows of charts, each row as high as there is room for; those that do not fit are left out."""

    def __init__(self, widget_id: str | None = None, *, unicode: bool = True) -> None:
        super().__init__(widget_id, unicode=unicode)
        self._rows: Sequence[Sequence[Chart]] = ()

    def show(self, rows: Sequence[Sequence[Chart]]) -> None:
        """Show these rows of charts, all of the same number."""
        self._rows = rows
        self.redraw()

    @staticmethod
    def cells(width: int, number: int) -> int:
        """Columns of each of ``number`` charts side by side on ``width`` cells."""
        return max((width - 2 - _GAP * (number - 1)) // number, 8)

    def lines(self, width: int, height: int, paint: Palette) -> list[Strip]:
        """Title and area of each chart."""
        rows = self._rows
        if not rows or height < LEAST_LINES or not self.pictures:
            return []
        high = min(max(height // len(rows), LEAST_LINES), MOST_LINES)
        shown: list[Strip] = []
        for charts in rows[: height // high]:
            cells = self.cells(width, len(charts))
            columns = [self._chart(chart, cells, high - 1, paint) for chart in charts]
            for line in range(high):
                parts: list[Part] = [(" ", None)]
                for number, column in enumerate(columns):
                    parts += [(" " * _GAP, None)] if number else []
                    parts += column[line]
                shown.append(strip_of(parts, width))
        return shown

    def _chart(self, chart: Chart, cells: int, high: int, paint: Palette) -> list[list[Part]]:
        """Its lines, each ``cells`` wide."""
        title, now, top = printable(chart.title), printable(chart.now), printable(chart.top)
        room = cells - cell_len(now) - cell_len(top) - 2
        title = fit(title, min(cell_len(title), max(room, 0)), unicode=self.unicode)
        blanks = max(cells - cell_len(title) - 1 - cell_len(now) - cell_len(top), 0)
        head: list[Part] = [
            (title, paint.label),
            (" ", None),
            (now, paint.warn if chart.marked and chart.marked[-1] else paint.text),
            (" " * blanks + top, paint.dim),
        ]
        marked = chart.marked or [False] * len(chart.values)
        lines: list[list[Part]] = []
        rows = area(chart.values, high, chart.high, unicode=self.unicode)
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
