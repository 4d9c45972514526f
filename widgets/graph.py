"""A graph of one figure over time, drawn with braille patterns where the terminal has them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.style import Style
from textual.color import Color

from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.widgets.drawing.frame import FrameEdge
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Line, Part, line_of
from stalltop.widgets.table_data import Role

AXIS = 8
"""Cells of the scale left of a graph."""
_SCALE_FROM = 24
"""The least width in cells at which a graph has a scale."""
_LOW = 0.45
"""The brightness of the lowest line, as a share of the way from the background to the full colour."""
_DOTS = 4
"""Number of dots in each of the two columns of a braille pattern."""
_LEFT = np.array([0, 0x40, 0x44, 0x46, 0x47], np.uint32)
_RIGHT = np.array([0, 0x80, 0xA0, 0xB0, 0xB8], np.uint32)
"""The bits of a braille pattern whose left or right column is filled up to a height of 0 to 4 dots
(Unicode Standard, chapter 21.1, Braille Patterns)."""
_BRAILLE = 0x2800
"""The empty braille pattern."""
_Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class GraphData:
    """What a graph shows."""

    title: str
    now: str
    """The value at the moment that is shown, as text."""
    values: _Values
    """One value for each column, the newest last; NaN if unknown."""
    high: float
    """The value at the top of the scale."""
    top: str
    """The value at the top of the scale, as text of at most ``AXIS - 1`` cells."""
    since: str
    """The age of the left end, as text."""
    until: str = "now"
    """The label of the right end: ``now`` or ``end``."""
    role: Role = "meter"
    """The usual style of the columns."""
    roles: tuple[str, ...] = ()
    """The names of the styles that ``marks`` choose from."""
    marks: NDArray[np.int64] | None = None
    """For each column the index in ``roles`` of its style; len(roles): the usual style."""
    shown: int | None = None
    """The column of the moment that the screen shows; None: the right end."""


def columns(cells: int, glyphs: Glyphs = UNICODE) -> int:
    """Return how many values a graph with ``cells`` cells inside its frame draws side by side."""
    inside = cells - AXIS if cells >= _SCALE_FROM else cells
    return max(inside, 1) * (2 if glyphs.braille else 1)


def area(values: _Values, lines: int, high: float, glyphs: Glyphs = UNICODE) -> list[str]:
    """Draw ``values``, on a scale from 0 to ``high``, as a filled area of ``lines`` lines, the top one first.

    An unknown value leaves its column blank. A value of 0 fills the smallest part of a cell, to differ from
    an unknown value.
    """
    steps = _DOTS if glyphs.braille else len(glyphs.area_levels) - 1
    share = np.clip(values / high if high > 0 else values * 0.0, 0.0, 1.0)
    heights = np.where(np.isnan(values), 0, np.maximum(np.rint(np.nan_to_num(share) * lines * steps), 1))
    below = np.arange(lines - 1, -1, -1)[:, None] * steps
    levels = np.clip(heights[None, :] - below, 0, steps).astype(np.int64)
    if not glyphs.braille:
        characters = np.array([ord(one) for one in glyphs.area_levels], np.uint32)[levels]
    else:
        characters = _BRAILLE + _LEFT[levels[:, 0::2]] + _RIGHT[levels[:, 1::2]]
        characters[characters == _BRAILLE] = ord(" ")
    cells = characters.shape[1]
    text = characters.astype("<u4").tobytes().decode("utf-32-le")
    return [text[at * cells : (at + 1) * cells] for at in range(lines)]


@lru_cache(maxsize=64)
def shades(full: Style, ground: Style, lines: int) -> tuple[Style, ...]:
    """Return one style for each of ``lines`` lines, the top one first: from the colour of ``full`` down to
    one nearer to the background. If the colours are the terminal's own, all are ``full``."""
    colour, background = full.color, ground.bgcolor
    if colour is None or background is None or colour.triplet is None or background.triplet is None:
        return (full,) * lines
    low, high = Color.from_rich_color(background), Color.from_rich_color(colour)
    return tuple(
        full + Style(color=low.blend(high, 1.0 - (1.0 - _LOW) * at / max(lines - 1, 1)).rich_color)
        for at in range(lines)
    )


class Graph(Lines):
    """Shows a ``GraphData``. Its title, its scale in time and its keys are on its frame."""

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self.badge = ""
        """The text right before the title, such as the key of the panel."""
        self._data: GraphData | None = None

    def show(self, data: GraphData | None) -> None:
        """Show ``data``; None if there is nothing to show yet."""
        self._data = data
        self.redraw()

    def edges(self, paint: Palette) -> tuple[FrameEdge, FrameEdge]:
        """Return the title and the current value at the top, the scale in time at the bottom."""
        data = self._data
        if data is None:
            return FrameEdge(), FrameEdge()
        span = ((f"{data.since} {self.glyphs.rule} {data.until}", paint.dim),)
        title = [(self.badge, paint.dim), (data.title, paint.label)]
        over = FrameEdge(title, [(data.now.strip(), paint.text)], () if self.frame.bottom else span)
        return over, FrameEdge([(data.since, paint.dim)], (), (), [(data.until, paint.dim)])

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return the lines of the area, with the scale at the left."""
        data = self._data
        if data is None or not height:
            return []
        axis = AXIS if width >= _SCALE_FROM else 0
        wanted = columns(width, self.glyphs)
        values = data.values[-wanted:]
        if len(values) < wanted:
            values = np.concatenate([np.full(wanted - len(values), np.nan), values])
        rows = area(values, height, data.high, self.glyphs)
        each = 2 if self.glyphs.braille else 1
        looks = self._looks(data, len(data.values), wanted, each)
        cursor = None
        if data.shown is not None and 0 <= data.shown - (len(data.values) - wanted) < wanted:
            cursor = (data.shown - (len(data.values) - wanted)) // each
        marks = [getattr(paint, role) for role in data.roles]
        tables = [shades(style, paint.ground, height) for style in (*marks, getattr(paint, data.role))]
        shown = []
        for number, text in enumerate(rows):
            parts: list[Part] = [(self._scale(data, number, height), paint.dim)] if axis else []
            if looks is None:
                parts.append((text, tables[-1][number]))
            else:
                for look, run in groupby(zip(text, looks, strict=True), key=lambda pair: pair[1]):
                    parts.append(("".join(letter for letter, _ in run), tables[look][number]))
            if cursor is not None:
                parts = _with_cursor(parts, axis + cursor, self.glyphs.instant, paint.head)
            shown.append(line_of(parts, width))
        return shown

    def _scale(self, data: GraphData, line: int, height: int) -> str:
        """Return the scale left of a line: the top value, or 0 at the bottom."""
        text = data.top.strip() if not line else "0" if line == height - 1 else ""
        return f"{text:>{AXIS - 1}}{self.glyphs.tee if text else self.glyphs.side}"

    def _looks(self, data: GraphData, known: int, wanted: int, each: int) -> list[int] | None:
        """Return for each cell the number of its style; None if all have the usual one."""
        usual = len(data.roles)
        if data.marks is None or not usual or bool((data.marks[-wanted:] == usual).all()):
            return None
        marks = data.marks[-wanted:]
        if known < wanted:
            marks = np.concatenate([np.full(wanted - known, usual), marks])
        return [int(one) for one in marks.reshape(-1, each).min(axis=1)]


def _with_cursor(parts: list[Part], cell: int, mark: str, style: Style) -> list[Part]:
    """Return ``parts`` with a vertical line in column ``cell``. The line replaces blanks; the graph keeps its
    form, in the style of the line."""
    found: list[Part] = []
    at = 0
    for text, look in parts:
        end = at + cell_len(text)
        if at <= cell < end:
            here = cell - at
            letter = mark if text[here] == " " else text[here]
            found += [(text[:here], look), (letter, style), (text[here + 1 :], look)]
        else:
            found.append((text, look))
        at = end
    return [part for part in found if part[0]]
