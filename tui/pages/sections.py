"""Pages made of sections: what they are drawn on, and how they keep their places. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from rich.cells import cell_len

from stalltop.model.text import figures
from stalltop.widgets.page import PageLine, wrapped
from stalltop.widgets.strips import printable

LABEL = 12
"""Cells of the name before a figure."""
APART = 3
"""Cells between two columns of sections."""

Row = tuple[tuple[str, str], ...]
"""(text, role) from left to right, one line of a screen."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What a page is drawn on."""

    width: int
    """Cells of its lines."""
    height: int
    """Rows of the terminal."""
    unicode: bool = True
    letters: bool = False
    """Parts of the time are told apart by letters, not by colours."""

    @property
    def half(self) -> Frame:
        """One of two columns of it."""
        return replace(self, width=(self.width - APART) // 2)

    def duration(self, ns: float | None) -> str:
        """A duration given in ns, no wider than it is."""
        return figures.duration(ns, unicode=self.unicode).strip()

    def missing(self) -> str:
        """What stands for a figure that is not known."""
        return figures.missing(1, unicode=self.unicode)


@dataclass(frozen=True, slots=True)
class Section:
    """Lines that belong together; ``name`` stays the same from one look to the next."""

    name: str
    lines: tuple[PageLine, ...]


def duration_text(seconds: float) -> str:
    """How long something has lasted, in whole seconds: ``44s``, ``4m10s``."""
    whole = round(max(seconds, 0.0))
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m{whole % 60:02}s" if whole < 6_000 else figures.duration(whole * 1e9).strip()


def heading(text: str, about: str = "") -> PageLine:
    """The first line of a section; ``about`` says how to read it."""
    return PageLine(((text, "head"), (f"  {about}" if about else "", "dim")), indent=2)


def pair(name: str, text: str, role: str = "text") -> PageLine:
    """A name and what is said of it."""
    return PageLine(((f"  {name.ljust(LABEL)} ", "label"), (text, role)), indent=LABEL + 3)


def note(text: str, role: str = "dim") -> PageLine:
    """A sentence in place of figures."""
    return PageLine((("  " + text, role),), indent=2)


def more(number: int) -> list[PageLine]:
    """The line that says how many are left out; none where none are."""
    return [note(f"and {number} more")] if number > 0 else []


@dataclass(slots=True)
class Places:
    """Keeps what lies below a section where it is: a section that has become shorter is filled up with blank
    lines, so that the page moves only where there is more to say than ever before."""

    _most: dict[str, int] = field(default_factory=dict)

    def lines(self, sections: Iterable[Section]) -> list[PageLine]:
        """The lines of ``sections``, one below the other with a blank line between them."""
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
        """The lines of ``left`` and of ``right`` beside each other, ``width`` cells each."""
        pairs = zip_longest(_rows(self.lines(left), width), _rows(self.lines(right), width), fillvalue=())
        return [PageLine((*_filled(one, width + APART), *other)) for one, other in pairs]


def _rows(lines: Iterable[PageLine], width: int) -> list[Row]:
    clean = (
        replace(line, parts=tuple((printable(text), role) for text, role in line.parts)) for line in lines
    )
    return [row for line in clean for row in wrapped(line, width)]


def _filled(row: Row, width: int) -> Row:
    """``row`` with blanks up to ``width`` cells."""
    return (*row, (" " * max(width - sum(cell_len(text) for text, _ in row), 0), "text"))


def plain(lines: Iterable[PageLine]) -> str:
    """``lines`` as text without styles, for a clipboard; ends in a newline."""
    rows = ("".join(printable(text) for text, _ in line.parts).rstrip() for line in lines)
    return "\n".join(rows).rstrip() + "\n"
