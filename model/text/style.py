"""Style of printed text: width, colours and character set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size

from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs

BOLD, DIM, RED, YELLOW = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[33m"
_RESET = "\x1b[0m"
ENDLESS = 1 << 16
"""Width in columns that stands for lines without a limit."""
_LEAST_TEXT = 8
"""Minimum number of columns for folded text, even if a long indent leaves fewer columns."""


@dataclass(frozen=True, slots=True)
class Style:
    """Capabilities of the output that text is printed to: width, colours and character set."""

    width: int
    """Number of columns."""
    colour: bool
    """True if ANSI colours are used."""
    glyphs: Glyphs

    def at_least(self, width: int) -> Style:
        """Returns this style with a width of at least ``width`` columns."""
        return replace(self, width=max(self.width, width))

    def paint(self, text: str, code: str) -> str:
        """Wraps ``text`` in the escape sequence ``code``, if colours are used."""
        return f"{code}{text}{_RESET}" if self.colour and code and text.strip() else text

    def fit(self, text: str, width: int) -> str:
        """Pads or cuts ``text`` to exactly ``width`` columns (``figures.fit``)."""
        return figures.fit(text, width, self.glyphs)

    def wrapped(self, parts: Iterable[str], indent: str = "") -> list[str]:
        """Joins ``parts`` by two blanks, on as many lines as needed. Lines after the first begin with
        ``indent``; a part longer than a line is cut."""
        lines: list[str] = []
        for part in parts:
            if lines and cell_len(lines[-1]) + 2 + cell_len(part) <= self.width:
                lines[-1] += "  " + part
            else:
                lines.append((indent if lines else "") + part)
        return [self.fit(line, self.width).rstrip() for line in lines]

    def folded(self, first: str, text: str, rest: str | None = None) -> list[str]:
        """Breaks ``text`` into lines at blanks. The first line begins with ``first``, the others with
        ``rest``.

        By default, ``rest`` consists of as many blanks as ``first`` is wide. A word longer than a line is
        broken.
        """
        rest = " " * cell_len(first) if rest is None else rest
        room = max(self.width - max(cell_len(first), cell_len(rest)), _LEAST_TEXT)
        lines = [""]
        for word in self.plain(text).split():
            while cell_len(word) > room:
                head = set_cell_size(word, room).rstrip()
                if lines[-1]:
                    lines.append("")
                lines[-1] = head
                lines.append("")
                word = word[len(head) :]
            if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(word) > room:
                lines.append("")
            lines[-1] += (" " if lines[-1] else "") + word
        return [
            ((first if number == 0 else rest) + line).rstrip()
            for number, line in enumerate(lines)
            if line or number == 0
        ]

    def plain(self, text: str) -> str:
        """Replaces characters of ``text`` that are not ASCII by ``?``, if the output can only show ASCII."""
        return self.glyphs.plain(text)
