"""Removes from the output to the terminal what the terminal already shows.

Textual paints whole regions, some of them several times for one key, and sets and resets the whole style for
each piece of text. Over a slow connection the user waits for these bytes. This module remembers the cells
that were written. It sends only cells that change, and only those parts of their style that differ from the
current style.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from stalltop.widgets.drawing.strips import cell_each, cells

_TOKEN: Final = re.compile(
    r"\x1b\[(?P<style>[\d;:]*)m"
    r"|\x1b\[(?P<row>\d+);(?P<column>\d+)H"
    r"|(?P<harmless>\x1b\[\?(?:25|1000|1003|1004|1006|1015|1016|2004|2026|2048)[hl]"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x07)"
    r"|(?P<between>\n+(?=\x1b\[\d+;\d+H))"
    r"|(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|(?P<other>[\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*)"
)
"""The group ``harmless`` matches sequences that change no cell: modes of cursor, mouse, focus, paste and
synchronized output, messages to the terminal itself (OSC, such as the clipboard), and the bell. ``between``
matches line ends that precede a sequence that sets the position of the cursor."""
_COLOURS: Final = frozenset(map(str, (*range(30, 38), 39, *range(90, 98))))
_BACKGROUNDS: Final = frozenset(map(str, (*range(40, 48), 49, *range(100, 108))))
_UNSEEN: Final = frozenset(("1", "2", "3"))
"""SGR attributes that do not show on blanks: bold, dim and italic."""
_KEPT: Final = 4096
"""Number of results that each of the functions about styles below caches; a theme needs a few hundred."""
_MOVE_CELLS: Final = 6
"""Up to this number of unchanged cells between two changes are sent again: moving the cursor over them takes
about as many bytes."""


class CellStyle(NamedTuple):
    """The style that SGR sequences (ECMA-48, 8.3.117) set; empty: the terminal's own."""

    colour: str = ""
    background: str = ""
    attributes: tuple[str, ...] = ()


_PLAIN: Final = CellStyle()
_UNKNOWN: Final = ""
"""Stands for the character of a cell whose content is not known."""


class Lean:
    """Shortens the output to one terminal. The terminal has the plain style at the start and at the end of
    each text."""

    def __init__(self) -> None:
        self._lines: dict[int, tuple[list[str], list[CellStyle]]] = {}
        """By line, from 1: the characters of its cells, and their styles."""
        self._written: list[str] = []
        self._style = _PLAIN
        """The current style of the terminal."""
        self._at: tuple[int, int] | None = None
        """The terminal's cursor: (row, column) from 1; None: not known."""

    def forget(self) -> None:
        """Forget what the terminal shows, because it was cleared, resized, or written to by another
        program."""
        self._lines.clear()
        self._at = None

    def paint(self, row: int, column: int, pieces: Sequence[tuple[str, CellStyle]]) -> None:
        """Add pieces of one line, the first one at a place from 1, to what the next ``shorten`` returns."""
        if not all(cell_each(text) for text, _ in pieces):
            for text, style in pieces:
                length = cells(text)
                self._print(text, length, row, column, style)
                column += length
            return
        new: list[str] = []
        worn: list[CellStyle] = []
        for text, style in pieces:
            new += text
            worn += _worn(text, style)
        start = 0
        ahead = iter(pieces)
        text, style = "", _PLAIN
        for first, stop in self._put(row, column - 1, new, worn):
            while first < stop:
                while first >= start + len(text):
                    start += len(text)
                    text, style = next(ahead)
                end = min(stop, start + len(text))
                self._send(text[first - start : end - start], row, column + first, style)
                first = end

    def shorten(self, text: str) -> str:
        """Return what to write instead of ``text``, after the cells that were painted."""
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
                length = cells(match[0])
                self._print(match[0], length, *place, wanted)
                place, moved = (place[0], place[1] + length), False
            elif kind != "between":
                self._pass(match[0], place if moved else None, wanted)
                place, moved = None, False
        if moved and place is not None:
            self._move(*place)
        self._wear(_PLAIN)
        written, self._written = self._written, []
        return "".join(written)

    def _pass(self, text: str, place: tuple[int, int] | None, style: CellStyle) -> None:
        """Write ``text`` unchanged, because it contains a sequence that is not understood, or its position is
        not known. Then forget what the terminal shows."""
        if place is not None:
            self._move(*place)
        self._wear(style)
        self._written.append(text)
        self.forget()

    def _print(self, text: str, length: int, row: int, column: int, style: CellStyle) -> None:
        """Write those cells of ``text`` that the terminal does not show yet. ``text`` is ``length`` cells
        wide."""
        if length == len(text) and cell_each(text):
            for first, stop in self._put(row, column - 1, list(text), _worn(text, style)):
                self._send(text[first:stop], row, column + first, style)
            return
        letters, _ = self._line(row, column - 1 + length)
        letters[column - 1 : column - 1 + length] = [_UNKNOWN] * length
        self._send(text, row, column, style)
        self._at = None

    def _line(self, row: int, end: int) -> tuple[list[str], list[CellStyle]]:
        """Return the characters and the styles of a line of at least ``end`` cells."""
        letters, styles = line = self._lines.setdefault(row, ([], []))
        if len(letters) < end:
            styles.extend([_PLAIN] * (end - len(letters)))
            letters.extend([_UNKNOWN] * (end - len(letters)))
        return line

    def _put(self, row: int, first: int, new: list[str], worn: list[CellStyle]) -> Sequence[tuple[int, int]]:
        """Note that a line shows ``new`` with the styles ``worn`` from cell ``first`` on, which is counted
        from 0. Returns which of them it did not show yet (``_changed``)."""
        end = first + len(new)
        letters, styles = self._line(row, end)
        old, was = letters[first:end], styles[first:end]
        if old == new and was == worn:
            return ()
        letters[first:end], styles[first:end] = new, worn
        return _changed(old, was, new, worn)

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


def _changed(
    old: list[str], was: list[CellStyle], new: list[str], worn: list[CellStyle]
) -> list[tuple[int, int]]:
    """Return (start, stop) of each range in which characters ``new`` with the styles ``worn`` differ from
    characters ``old`` with the styles ``was``. All have the same length. Near ranges are merged."""
    places: list[tuple[int, int]] = []
    start = stop = -1
    for at, letter in enumerate(new):
        if letter == old[at] and worn[at] == was[at]:
            continue
        if start < 0:
            start = at
        elif at - stop > _MOVE_CELLS:
            places.append((start, stop))
            start = at
        stop = at + 1
    places.append((start, stop))
    return places


def _worn(text: str, style: CellStyle) -> list[CellStyle]:
    """Return the style of each character of ``text`` as far as it shows."""
    if " " not in text or (blank := _blank(style)) == style:
        return [style] * len(text)
    return [blank if letter == " " else style for letter in text]


def cell_style(sequence: str) -> CellStyle:
    """Return the style that ``sequence``, SGR parameters such as ``1;31``, sets; empty: plain."""
    return _after(_PLAIN, sequence) if sequence else _PLAIN


@lru_cache(_KEPT)
def _after(style: CellStyle, code: str) -> CellStyle:
    """Return ``style`` after an SGR sequence with the parameters ``code``."""
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
    """Return the SGR sequence that changes ``now`` to ``wanted``."""
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
    """Return the part of a style that shows on blanks."""
    if _UNSEEN.issuperset(style.attributes):
        return CellStyle(background=style.background)
    return style
