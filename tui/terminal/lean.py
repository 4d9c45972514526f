"""What goes to the terminal, without what it shows already.

Textual paints whole regions, some of them several times for one key, and gives every piece of text its whole
style and takes it back after it. Over a slow line that is what a person waits for. So what was written is
remembered, by cell: only cells that change are sent, and of their style only what differs from what holds.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from rich.cells import cell_len

_TOKEN: Final = re.compile(
    r"\x1b\[(?P<style>[\d;:]*)m"
    r"|\x1b\[(?P<row>\d+);(?P<column>\d+)H"
    r"|(?P<harmless>\x1b\[\?(?:25|1000|1003|1004|1006|1015|1016|2004|2026|2048)[hl]"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x07)"
    r"|(?P<between>\n+(?=\x1b\[\d+;\d+H))"
    r"|(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|(?P<other>[\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*)"
)
"""``harmless``: switches of cursor, mouse, focus, paste and synchronized output, what is for the terminal
itself (OSC, such as the clipboard), and the bell. ``between``: two lines; the second says where it begins."""
_COLOURS: Final = frozenset(map(str, (*range(30, 38), 39, *range(90, 98))))
_BACKGROUNDS: Final = frozenset(map(str, (*range(40, 48), 49, *range(100, 108))))
_UNSEEN: Final = frozenset(("1", "2", "3"))
"""Bold, dim and italic blanks look like any others of their background."""
_KEPT: Final = 4096
"""Pairs of styles whose difference is kept: a theme of ours has some hundred."""
_MOVE_CELLS: Final = 6
"""As many cells that stay are sent along rather than jumped over: about what the jump takes."""


class CellStyle(NamedTuple):
    """What SGR sequences (ECMA-48, 8.3.117) have set; empty: the terminal's own."""

    colour: str = ""
    background: str = ""
    attributes: tuple[str, ...] = ()


_PLAIN: Final = CellStyle()
_Cell = tuple[str, CellStyle] | None
"""A character and its style; None: not known."""


class Lean:
    """Shortens what is written to one terminal. Every text begins and ends in the plain style."""

    def __init__(self) -> None:
        self._lines: dict[int, list[_Cell]] = {}
        self._written: list[str] = []
        self._style = _PLAIN
        """Of the terminal, now."""
        self._at: tuple[int, int] | None = None
        """Where the terminal's cursor is, now: (row, column) from 1; None: not known."""

    def forget(self) -> None:
        """Nothing is known of what the terminal shows: it was cleared, resized, or written on by others."""
        self._lines.clear()
        self._at = None

    def shorten(self, text: str) -> str:
        """What has to be written in place of ``text``."""
        self._written = []
        wanted = _PLAIN
        place: tuple[int, int] | None = None
        moved = False
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup
            if kind == "style":
                wanted = _after(wanted, match["style"])
            elif kind == "column":
                place, moved = (int(match["row"]), int(match["column"])), True
            elif kind == "harmless":
                self._written.append(match[0])
            elif kind == "text" and place is not None:
                self._print(match[0], *place, wanted)
                place, moved = (place[0], place[1] + cell_len(match[0])), False
            elif kind != "between":
                self._pass(match[0], place if moved else None, wanted)
                place, moved = None, False
        if moved and place is not None:
            self._move(*place)
        self._wear(_PLAIN)
        return "".join(self._written)

    def _pass(self, text: str, place: tuple[int, int] | None, style: CellStyle) -> None:
        """Write what is not understood as it is."""
        if place is not None:
            self._move(*place)
        self._wear(style)
        self._written.append(text)
        self.forget()

    def _print(self, text: str, row: int, column: int, style: CellStyle) -> None:
        """Write the cells of ``text`` that the terminal does not show yet."""
        line = self._lines.setdefault(row, [])
        first, end = column - 1, column - 1 + cell_len(text)
        if len(line) < end:
            line.extend([None] * (end - len(line)))
        if end - first != len(text) or not _cell_each(text):
            line[first:end] = [None] * (end - first)
            self._send(text, row, column, style)
            self._at = None
            return
        blank = _blank(style)
        new: list[_Cell] = [(letter, blank if letter == " " else style) for letter in text]
        old = line[first:end]
        if old == new:
            return
        line[first:end] = new
        for start, stop in _changed(old, new):
            self._send(text[start:stop], row, column + start, style)

    def _send(self, text: str, row: int, column: int, style: CellStyle) -> None:
        if self._at != (row, column):
            self._move(row, column)
        if text.strip(" ") or _blank(style) != _blank(self._style):
            self._wear(style)
        self._written.append(text)
        self._at = (row, column + len(text))

    def _move(self, row: int, column: int) -> None:
        if self._at != (row, column):
            self._written.append(f"\x1b[{row};{column}H")
            self._at = (row, column)

    def _wear(self, style: CellStyle) -> None:
        if style != self._style:
            self._written.append(_change(self._style, style))
            self._style = style


def _changed(old: list[_Cell], new: list[_Cell]) -> list[tuple[int, int]]:
    """Where (start, stop) both differ, both of one length; what lies close together is one place."""
    places: list[tuple[int, int]] = []
    start = stop = -1
    for at, (before, after) in enumerate(zip(old, new, strict=True)):
        if before == after:
            continue
        if start < 0:
            start = at
        elif at - stop > _MOVE_CELLS:
            places.append((start, stop))
            start = at
        stop = at + 1
    places.append((start, stop))
    return places


def _cell_each(text: str) -> bool:
    """Whether every character takes one cell."""
    return text.isascii() or all(cell_len(character) == 1 for character in set(text))


@lru_cache(_KEPT)
def _after(style: CellStyle, code: str) -> CellStyle:
    """``style`` after the parameters ``code`` of an SGR sequence."""
    words = (code or "0").split(";")
    while words:
        word = words.pop(0)
        if word in ("38", "48"):
            length = 4 if words[:1] == ["2"] else 2
            colour = ";".join((word, *words[:length]))
            del words[:length]
            style = style._replace(colour=colour) if word == "38" else style._replace(background=colour)
        elif word in _COLOURS:
            style = style._replace(colour="" if word == "39" else word)
        elif word in _BACKGROUNDS:
            style = style._replace(background="" if word == "49" else word)
        elif word in ("", "0"):
            style = _PLAIN
        elif word not in style.attributes:
            style = style._replace(attributes=(*style.attributes, word))
    return style


@lru_cache(_KEPT)
def _change(now: CellStyle, wanted: CellStyle) -> str:
    """What makes ``wanted`` of ``now``."""
    if wanted == _PLAIN:
        return "\x1b[0m"
    words = []
    if not set(now.attributes) <= set(wanted.attributes):
        words, now = ["0"], _PLAIN
    words += [word for word in wanted.attributes if word not in now.attributes]
    if wanted.colour != now.colour:
        words.append(wanted.colour or "39")
    if wanted.background != now.background:
        words.append(wanted.background or "49")
    return f"\x1b[{';'.join(words)}m"


@lru_cache(_KEPT)
def _blank(style: CellStyle) -> CellStyle:
    """What of a style is seen on blanks."""
    if _UNSEEN.issuperset(style.attributes):
        return CellStyle(background=style.background)
    return style
