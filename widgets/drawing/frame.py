"""Frames of panels: a line with a title and keys at the top, and optionally sides and a bottom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich.cells import cell_len
from rich.style import Style

from stalltop.model.text.figures import fit
from stalltop.model.text.glyphs import Glyphs
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Line, Part, length, line_of, printable

Top = Literal["", "blank", "rule", "corner", "tee"]
"""The first line of a panel: none; a title without a line; a line from edge to edge; the top of a box; a line
across a box that begins above the panel."""

_LEAST_TITLE = 12
"""A title that is cut to make room for the position at the right end keeps at least this many cells,
``_AROUND`` included. If less would be left, the position is not drawn."""


@dataclass(frozen=True, slots=True)
class PanelFrame:
    """Which edges of a panel are drawn. Each takes a line or a column of the panel."""

    top: Top = ""
    sides: bool = False
    bottom: bool = False

    @property
    def lines(self) -> int:
        """Return the number of lines that the frame takes."""
        return bool(self.top) + self.bottom

    @property
    def columns(self) -> int:
        """Return the number of columns that the frame takes."""
        return 2 * self.sides


NO_FRAME = PanelFrame()
Group = Sequence[Part]
"""Pieces of text that are drawn together on an edge of a frame."""


@dataclass(frozen=True, slots=True)
class FrameEdge:
    """The texts on the top or bottom edge of a frame: first the title and the keys, at the right end the
    legend and the position. Where there is little room, first the legend is left out, then the keys; then the
    title is cut."""

    title: Group = ()
    keys: Group = ()
    legend: Group = ()
    position: Group = ()


def titled(badge: str, title: str, keys: str, paint: Palette, *, focused: bool = False) -> FrameEdge:
    """Return the edge of a panel with ``title``: ``badge`` is right before the title, ``keys`` are after
    it."""
    name = (title, paint.head if focused else paint.label)
    return FrameEdge([(badge, paint.dim), name] if badge else [name], [(keys, paint.accent)] if keys else ())


def drawn(edge: FrameEdge, width: int, ends: str, line: str, style: Style, glyphs: Glyphs) -> Line:
    """Return an edge of ``width`` cells. ``ends`` are its two ends, ``line`` the character between the texts,
    all drawn in ``style``."""
    title, keys, legend, position = (
        [(printable(text), one) for text, one in group]
        for group in (edge.title, edge.keys, edge.legend, edge.position)
    )
    room = _room(width, ends)
    for group in (legend, keys):
        if sum(map(_taken, (title, keys, legend, position))) > room:
            group.clear()
    if room - _taken(position) < min(_taken(title), _LEAST_TITLE):
        position = []
    title = _cut(title, room - _taken(keys) - _taken(legend) - _taken(position) - _AROUND, glyphs)
    parts: list[Part] = [(ends[:1] + line, style)]
    for group in (title, keys):
        parts += [(" ", None), *group, (" ", None), (line, style)] if group else []
    tail: list[Part] = []
    for group in (legend, position):
        tail += [(" ", None), *group, (" ", None), (line, style)] if group else []
    blanks = width - length(parts) - length(tail) - len(ends[1:])
    return line_of([*parts, (line * max(blanks, 0), style), *tail, (ends[1:], style)], width)


def _room(width: int, ends: str) -> int:
    """Return the cells for texts on an edge."""
    return width - len(ends) - 1


def edge_lines(
    frame: PanelFrame, edges: tuple[FrameEdge, FrameEdge], width: int, style: Style, glyphs: Glyphs
) -> tuple[Line | None, Line | None]:
    """Return the top and the bottom of ``frame``, ``width`` cells wide; ``edges`` are the texts on them; None
    if the frame has no such edge. A legend that does not fit at the top is drawn at the bottom, if the frame
    has one."""
    top, bottom = edges
    corners, tees = glyphs.frame_corners, glyphs.frame_tees
    first = last = None
    if frame.top:
        ends = {"corner": corners[:2], "tee": tees}.get(frame.top, "")
        line = " " if frame.top == "blank" else glyphs.rule
        taken = sum(map(_taken, (top.title, top.keys, top.legend, top.position)))
        if top.legend and taken > _room(width, ends):
            top, bottom = replace(top, legend=()), replace(bottom, legend=top.legend)
        first = drawn(top, width, ends, line, style, glyphs)
    if frame.bottom:
        last = drawn(bottom, width, corners[2:], glyphs.rule, style, glyphs)
    return first, last


def framed(
    inner: Sequence[Line], frame: PanelFrame, edges: tuple[Line | None, Line | None], style: Style, side: str
) -> list[Line]:
    """Return the lines ``inner`` with ``frame`` around them; ``edges`` are its top and its bottom,
    ``side`` is the character of its sides."""
    sides = [(side, style)] if frame.sides else []
    top, bottom = edges
    return [
        *([] if top is None else [top]),
        *([[*sides, *line, *sides] for line in inner] if sides else inner),
        *([] if bottom is None else [bottom]),
    ]


_AROUND = 3
"""Cells around a text on an edge: a blank at each side, and a piece of the line."""


def _taken(group: Sequence[Part]) -> int:
    """Return the cells that a text takes on an edge; 0 if it is empty."""
    return length(group) + _AROUND if group else 0


def _cut(group: Sequence[Part], room: int, glyphs: Glyphs) -> list[Part]:
    """Return ``group`` in at most ``room`` cells."""
    kept: list[Part] = []
    for text, style in group:
        if room <= 0:
            break
        text = fit(text, min(cell_len(text), room), glyphs)
        kept.append((text, style))
        room -= cell_len(text)
    return kept
