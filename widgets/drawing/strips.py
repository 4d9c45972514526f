"""Builds lines of styled text, and finds where two lines differ."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from stalltop.model.text.figures import printable as printable

Part = tuple[str, Style | None]
"""A piece of a line: its text and its style (None: the widget's own style)."""
Line = list[tuple[str, Style]]
"""A line of a widget. Each piece has a style; ``PLAIN`` is the widget's own. Plain tuples are made several
times faster than Textual's segments and strips."""

PLAIN = Style.null()
"""The style of text without a style. Textual's line filters do not accept None."""

_NARROW = set(map(chr, range(32, 127)))
"""Characters that are known to take one cell each: printable ASCII, and others that were seen."""
_MOST_NARROW = 20_000


def line_of(parts: Iterable[Part], width: int, fill: Style | None = None) -> Line:
    """Join ``parts`` to one line of exactly ``width`` cells. Neighbouring parts of the same style become one
    piece."""
    line: Line = []
    used = 0
    fill = fill or PLAIN
    held = ""
    last: Style | None = None
    for text, style in parts:
        if not text or used >= width:
            continue
        if style is None:
            style = PLAIN
        length = cells(text)
        if used + length > width:
            length = width - used
            text = set_cell_size(text, length)
        used += length
        if last is style or last == style:
            held += text
        else:
            if last is not None:
                line.append((held, last))
            held, last = text, style
    if used < width:
        blanks = " " * (width - used)
        if last == fill:
            held += blanks
        else:
            if last is not None:
                line.append((held, last))
            held, last = blanks, fill
    if last is not None:
        line.append((held, last))
    return line


def cell_each(text: str) -> bool:
    """Return whether every character takes one cell, so that equal characters mean equal cells."""
    # Nearly all text is ASCII, and testing it as a whole is several times as fast as by character.
    if (text.isascii() and text.isprintable()) or _NARROW.issuperset(text):
        return True
    if len(_NARROW) > _MOST_NARROW:  # names of programs may contain any character
        _NARROW.clear()
    _NARROW.update(character for character in set(text) if cell_len(character) == 1)
    return _NARROW.issuperset(text)


def cells(text: str) -> int:
    """Return the number of cells that ``text`` takes."""
    if text.isascii() and text.isprintable():
        return len(text)
    return len(text) if cell_each(text) else cell_len(text)


def changed_span(old: Line, new: Line) -> tuple[int, int] | None:
    """Return the cells (start, end) in which two lines differ; None if they are equal."""
    width = length(new)
    if length(old) != width:
        return 0, max(length(old), width)
    if old == new:
        return None
    start = _alike(old, new, from_end=False)
    end = width - _alike(old, new, from_end=True)
    return (start, end) if start < end else (0, width)


def text_of(parts: Iterable[Part]) -> str:
    """Return the text of ``parts``."""
    return "".join([text for text, _ in parts])


def length(parts: Iterable[Part]) -> int:
    """Return the number of cells that ``parts`` take."""
    texts = [text for text, _ in parts]
    whole = "".join(texts)
    # One test of the whole line is several times as fast as one of each piece.
    return len(whole) if cell_each(whole) else sum(map(cells, texts))


def _alike(before: Line, after: Line, *, from_end: bool) -> int:
    """Count the cells in which two lines of the same length are equal, up to the first difference. With
    ``from_end``, count from the end of the lines."""
    found = 0
    for one, other in zip(
        *((reversed(before), reversed(after)) if from_end else (before, after)), strict=False
    ):
        if one == other:
            found += cells(one[0])
            continue
        if one[1] == other[1] and cell_each(one[0]) and cell_each(other[0]):
            step = -1 if from_end else 1
            for a, b in zip(one[0][::step], other[0][::step], strict=False):
                if a != b:
                    break
                found += 1
        break
    return found
