"""What goes to the terminal, without what need not be said.

Textual gives every piece of text its whole style and takes it back after it. Most neighbours share a
background, many a colour too: of a screen full of figures, half of all bytes say again what holds already.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from textual.drivers.linux_driver import LinuxDriver

_STYLE: Final = re.compile(r"\x1b\[([\d;:]*)m")
_MOVES: Final = re.compile(r"(?:\x1b\[[\d;]*H)+")
_RESET: Final = "\x1b[0m"
_COLOURS: Final = frozenset(map(str, (*range(30, 38), 39, *range(90, 98))))
_BACKGROUNDS: Final = frozenset(map(str, (*range(40, 48), 49, *range(100, 108))))
_UNSEEN: Final = frozenset(("1", "2", "3"))
"""Bold, dim and italic blanks look like any others of their background."""
_KEPT: Final = 4096
"""Pairs of styles whose difference is kept: a theme of ours has some hundred."""


class LeanDriver(LinuxDriver):
    """Writes what Textual's own driver would, in fewer bytes."""

    def write(self, data: str) -> None:
        """Write ``data`` to the terminal."""
        super().write(lean(data))


class _Style(NamedTuple):
    """What SGR sequences (ECMA-48, 8.3.117) have set; empty: the terminal's own."""

    colour: str = ""
    background: str = ""
    attributes: tuple[str, ...] = ()


_PLAIN: Final = _Style()


def lean(text: str) -> str:
    """``text`` as it shows the same on a terminal, where its style is plain before and after it.

    Styles are sent only where something is written that shows them, and of them only what changes.
    """
    pieces = _STYLE.split(text)
    if len(pieces) == 1:
        return text
    written = [pieces[0]]
    now = wanted = _PLAIN
    for code, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        wanted = _after(wanted, code)
        if not piece:
            continue
        if wanted != now and not _shows_alike(piece, now, wanted):
            written.append(_change(now, wanted))
            now = wanted
        written.append(piece)
    if now != _PLAIN:
        written.append(_RESET)
    return "".join(written)


def _shows_alike(piece: str, now: _Style, wanted: _Style) -> bool:
    """Whether ``piece`` is the same in both styles: it moves the cursor, or is blank."""
    if piece[0] == "\x1b":
        return _MOVES.fullmatch(piece) is not None
    return piece[0] == " " and _blanks_alike(now, wanted) and not piece.strip(" ")


@lru_cache(_KEPT)
def _after(style: _Style, code: str) -> _Style:
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
def _change(now: _Style, wanted: _Style) -> str:
    """What makes ``wanted`` of ``now``."""
    if wanted == _PLAIN:
        return _RESET
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
def _blanks_alike(now: _Style, wanted: _Style) -> bool:
    """Whether blanks look the same in both styles."""
    return now.background == wanted.background and _UNSEEN.issuperset(now.attributes + wanted.attributes)
