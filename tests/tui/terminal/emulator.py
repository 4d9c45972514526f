"""Emulates a terminal, and lists keys that change much of its picture."""

from __future__ import annotations

import pyte

KEYS = ("o", "down", "down", "e", "e", "a", "escape", "question_mark", "escape", "slash", "1", "escape", "t")


class Emulator:
    """Emulates a terminal."""

    def __init__(self, width: int = 40, height: int = 5) -> None:
        self._screen = pyte.Screen(width, height)
        self._stream = pyte.Stream(self._screen)

    def feed(self, text: str) -> None:
        self._stream.feed(text)

    def shown(self) -> list[list[pyte.screens.Char]]:
        """Return every cell; a blank cell is returned without attributes that are not visible on a blank."""
        screen = self._screen
        return [[_seen(screen.buffer[y][x]) for x in range(screen.columns)] for y in range(screen.lines)]

    @property
    def place(self) -> tuple[int, int]:
        return self._screen.cursor.y, self._screen.cursor.x


def _seen(cell: pyte.screens.Char) -> pyte.screens.Char:
    if cell.data != " " or cell.reverse or cell.underscore or cell.strikethrough:
        return cell
    return cell._replace(bold=False, italics=False, fg="default")
