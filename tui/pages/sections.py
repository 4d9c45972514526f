"""Pages made of sections: their helper functions, and how sections keep their places."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from rich.cells import cell_len

from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.widgets.drawing.strips import printable
from stalltop.widgets.page import PageLine, wrapped

LABEL = 12
"""Width in cells of the name before a figure."""
APART = 3
"""Number of blank cells between two columns of sections."""

Row = tuple[tuple[str, str], ...]
"""The (text, role) of each piece of a line, left to right."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The size of a page, and how it is drawn."""

    width: int
    """Cells of a line."""
    height: int
    """Lines of the terminal."""
    glyphs: Glyphs = UNICODE
    letters: bool = False
    """Whether bars of the parts of a call's time consist of letters and patterns, for terminals with few
    colours."""

    @property
    def half(self) -> Frame:
        """Return the frame of one of two columns."""
        return replace(self, width=(self.width - APART) // 2)

    def duration(self, ns: float | None) -> str:
        """Format a duration given in ns, without padding."""
        return figures.duration(ns, self.glyphs).strip()

    def missing(self) -> str:
        """Return the glyph for a figure that is not known."""
        return figures.missing(1, self.glyphs)


@dataclass(frozen=True, slots=True)
class Section:
    """Lines that belong together. ``name`` stays the same from one drawing to the next."""

    name: str
    lines: tuple[PageLine, ...]


def heading(text: str, about: str = "") -> PageLine:
    """Return the first line of a section; ``about`` explains how to read it."""
    return PageLine(((text, "head"), (f"  {about}" if about else "", "dim")), indent=2)


def pair(name: str, text: str, role: str = "text") -> PageLine:
    """Return a line with a name and a text."""
    return PageLine(((f"  {name.ljust(LABEL)} ", "label"), (text, role)), indent=LABEL + 3)


def note(text: str, role: str = "dim") -> PageLine:
    """Return a line with a sentence instead of figures."""
    return PageLine((("  " + text, role),), indent=2)


def more(number: int) -> list[PageLine]:
    """Return the line about the number of entries that are left out; empty if none are."""
    return [note(f"and {number} more")] if number > 0 else []


@dataclass(slots=True)
class Places:
    """Keeps sections in place. A section that became shorter is filled with blank lines, so that the page
    moves only when a section is longer than ever before."""

    _most: dict[str, int] = field(default_factory=dict)

    def lines(self, sections: Iterable[Section]) -> list[PageLine]:
        """Return the lines of ``sections``, with a blank line between them."""
        found: list[PageLine] = []
        for section in sections:
            if not section.lines:
                continue
            most = self._most[section.name] = max(self._most.get(section.name, 0), len(section.lines))
            if found:
                found.append(PageLine())
            found += [*section.lines, *[PageLine()] * (most - len(section.lines))]
        return found

    def beside(self, left: Iterable[Section], right: Iterable[Section], width: int) -> list[PageLine]:
        """Return the lines of ``left`` and ``right`` side by side, ``width`` cells each."""
        pairs = zip_longest(_rows(self.lines(left), width), _rows(self.lines(right), width), fillvalue=())
        return [PageLine((*_filled(one, width + APART), *other)) for one, other in pairs]


def _rows(lines: Iterable[PageLine], width: int) -> list[Row]:
    clean = (
        replace(line, parts=tuple((printable(text), role) for text, role in line.parts)) for line in lines
    )
    return [row for line in clean for row in wrapped(line, width)]


def _filled(row: Row, width: int) -> Row:
    """Pad ``row`` to ``width`` cells."""
    return (*row, (" " * max(width - sum(cell_len(text) for text, _ in row), 0), "text"))


def filled(lines: Iterable[PageLine], width: int) -> int:
    """Return how many rows of ``width`` cells ``lines`` fill."""
    return len(_rows(lines, width))


def fitted(lines: Iterable[PageLine], width: int, height: int, glyphs: Glyphs) -> list[PageLine]:
    """Return ``lines`` wrapped to at most ``height`` rows of ``width`` cells. If the last row is not the end
    of its line, it ends with an ellipsis."""
    rows: list[Row] = []
    for line in lines:
        rows += _rows((line,), width)
        if len(rows) > height > 0:
            inside = len(rows) - len(_rows((line,), width)) < height
            rows = [
                *rows[: height - 1],
                _cut(rows[height - 1], width, glyphs) if inside else rows[height - 1],
            ]
            break
    return [PageLine(row) for row in rows[: max(height, 0)]]


def _cut(row: Row, width: int, glyphs: Glyphs) -> Row:
    """Return ``row`` with an ellipsis at its end, in at most ``width`` cells."""
    room = width - 1 - cell_len(glyphs.ellipsis)
    kept: list[tuple[str, str]] = []
    for text, role in row:
        text = figures.fit(text, min(cell_len(text), max(room, 0)), glyphs)
        kept.append((text, role))
        room -= cell_len(text)
    said = "".join(text for text, _ in kept)
    more = "" if said.endswith(glyphs.ellipsis) else " " * (not said.endswith(" ")) + glyphs.ellipsis
    return (*kept, (more, "dim"))


def plain(lines: Iterable[PageLine]) -> str:
    """Return ``lines`` as text without styles that ends in a newline, for the clipboard."""
    rows = ("".join(printable(text) for text, _ in line.parts).rstrip() for line in lines)
    return "\n".join(rows).rstrip() + "\n"
