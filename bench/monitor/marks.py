"""Finds out from a program's terminal output which row of its screen has a marked background.

A key that moves the cursor changes the background of two rows; figures that change do not. So the backgrounds
of the cells in one column show when the effect of a key was painted, and no terminal emulator is needed.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from typing import Final

Mark = tuple[str, bool]
"""Background of a cell: the colour's parameters in the escape sequence ('': the terminal's default), and
whether foreground and background are exchanged."""

_TOKEN: Final = re.compile(
    r"\x1b\[([0-9;:<=>?]*)[ -/]*([@-~])"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
    r"|[\r\n\b]"
    r"|[^\x1b\r\n\b]+"
)


class Marks:
    """Tracks the backgrounds of the cells in ``column`` (from 0), by line."""

    def __init__(self, column: int) -> None:
        self._column = column
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""
        self._row = self._at = 0
        self._saved = (0, 0)
        self._mark: Mark = ("", False)
        self._lines: dict[int, Mark] = {}

    @property
    def lines(self) -> dict[int, Mark]:
        """Returns the current backgrounds by line (from 0). Lines on which nothing was written in the column
        are left out."""
        return dict(self._lines)

    def feed(self, data: bytes) -> None:
        """Processes ``data``, the next bytes that the program wrote. They may end within a character or an
        escape sequence."""
        text = self._rest + self._decode(data)
        end = 0
        for match in _TOKEN.finditer(text):
            if match.start() != end:
                break  # the rest of an escape sequence is still missing
            end = match.end()
            if match[2]:
                self._control(match[1], match[2])
            elif not match[0].startswith("\x1b"):
                self._print(match[0])
        self._rest = text[end:]

    def _print(self, text: str) -> None:
        if text == "\n":
            self._row += 1
        elif text == "\r":
            self._at = 0
        elif text == "\b":
            self._at -= 1
        else:
            if self._at <= self._column < self._at + len(text):
                self._lines[self._row] = self._mark
            self._at += len(text)

    def _control(self, parameters: str, name: str) -> None:
        if parameters[:1] in ("<", "=", ">", "?"):
            return
        words = parameters.replace(":", ";").split(";")
        numbers = [int(word) if word.isdigit() else 0 for word in words]
        if name == "m":
            self._style(numbers)
        elif name in "Hf":
            self._row = max(numbers[0], 1) - 1
            self._at = max(numbers[1] if len(numbers) > 1 else 1, 1) - 1
        elif name == "s":
            self._saved = (self._row, self._at)
        elif name == "u":
            self._row, self._at = self._saved
        elif name in "ABCDG":
            step = max(numbers[0], 1)
            self._row += {"A": -step, "B": step}.get(name, 0)
            self._at = step - 1 if name == "G" else self._at + {"C": step, "D": -step}.get(name, 0)

    def _style(self, numbers: Sequence[int]) -> None:
        background, reverse = self._mark
        following = iter(numbers)
        for number in following:
            if number in (38, 48):
                colour = _colour(following)
                background = colour if number == 48 else background
            elif number in (0, 49):
                background = ""
                reverse = reverse and number != 0
            elif number in (7, 27):
                reverse = number == 7
            elif 40 <= number <= 47 or 100 <= number <= 107:
                background = str(number)
        self._mark = (background, reverse)


def _colour(following: Iterator[int]) -> str:
    """Reads the colour that follows the parameter 38 or 48: one number for a palette of 256 colours, or three
    for red, green and blue. Returns the numbers as text."""
    kind = next(following, 0)
    parts = 3 if kind == 2 else 1
    return ";".join(str(next(following, 0)) for _ in range(parts))
