"""How printed text looks: its width, its colours and its characters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from stalltop.model.text import figures

BOLD, DIM, RED, YELLOW = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[33m"
_RESET = "\x1b[0m"
_LEAST_TEXT = 8
"""Columns that are left to folded text, however much stands before it."""


@dataclass(frozen=True, slots=True)
class Style:
    """What text is printed for."""

    width: int
    """Columns."""
    colour: bool
    """Whether ANSI colours are shown."""
    unicode: bool
    """False: ASCII only."""

    def paint(self, text: str, code: str) -> str:
        """``text`` in a colour."""
        return f"{code}{text}{_RESET}" if self.colour and code and text.strip() else text

    def fit(self, text: str, width: int) -> str:
        """``text`` in exactly ``width`` columns."""
        return figures.fit(text, width, unicode=self.unicode)

    def wrapped(self, parts: Iterable[str], indent: str = "") -> list[str]:
        """``parts`` two blanks apart, on as many lines as they need; a part longer than a line is cut."""
        lines: list[str] = []
        for part in parts:
            if lines and cell_len(lines[-1]) + 2 + cell_len(part) <= self.width:
                lines[-1] += "  " + part
            else:
                lines.append((indent if lines else "") + part)
        return [self.fit(line, self.width).rstrip() for line in lines]

    def folded(self, first: str, text: str, rest: str | None = None) -> list[str]:
        """``text`` behind ``first``, on as many lines as its words need; ``rest`` stands before the others.

        Nothing is cut: a word longer than a line is broken.
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
        """``text`` in the characters that can be shown."""
        return text if self.unicode else text.encode("ascii", "replace").decode("ascii")
