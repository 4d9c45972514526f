"""Builds lines of styled text, and finds where two lines differ."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from stalltop.model.text.figures import printable as printable

Part = tuple[str, Style | None]
"""A piece of a line: its text and its style (None: the widget's own style)."""

PLAIN = Style.null()
"""The style of text without a style. Textual's line filters do not accept None."""


def strip_of(parts: Iterable[Part], width: int, fill: Style | None = None) -> Strip:
    """Join ``parts`` to one line of exactly ``width`` cells. Neighbouring parts of the same style become one
    segment."""
    segments: list[Segment] = []
    used = 0
    fill = fill or PLAIN
    for text, style in parts:
        if not text or used >= width:
            continue
        style = style or PLAIN
        length = len(text) if text.isascii() else cell_len(text)
        if used + length > width:
            length = width - used
            text = set_cell_size(text, length)
        used += length
        if segments and segments[-1].style == style:
            segments[-1] = Segment(segments[-1].text + text, style)
        else:
            segments.append(Segment(text, style))
    if used < width:
        if segments and segments[-1].style == fill:
            segments[-1] = Segment(segments[-1].text + " " * (width - used), fill)
        else:
            segments.append(Segment(" " * (width - used), fill))
    return Strip(segments, width)


def changed_span(old: Strip, new: Strip) -> tuple[int, int] | None:
    """Return the cells (start, end) in which two lines differ; None if they are equal."""
    if old.cell_length != new.cell_length:
        return 0, max(old.cell_length, new.cell_length)
    before, after = list(old), list(new)
    if before == after:
        return None
    start = _alike(before, after, from_end=False)
    end = new.cell_length - _alike(before, after, from_end=True)
    return (start, end) if start < end else (0, new.cell_length)


def _alike(before: list[Segment], after: list[Segment], *, from_end: bool) -> int:
    """Count the cells in which two lines of the same length are equal, up to the first difference. With
    ``from_end``, count from the end of the lines."""
    if from_end:
        before, after = before[::-1], after[::-1]
    cells = 0
    for one, other in zip(before, after, strict=False):
        if one == other:
            cells += one.cell_length
            continue
        if one.style == other.style and _cell_each(one.text) and _cell_each(other.text):
            step = -1 if from_end else 1
            for a, b in zip(one.text[::step], other.text[::step], strict=False):
                if a != b:
                    break
                cells += 1
        break
    return cells


def _cell_each(text: str) -> bool:
    """Return whether every character takes one cell, so that equal characters mean equal cells."""
    return text.isascii() or all(cell_len(character) == 1 for character in set(text))
