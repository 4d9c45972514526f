"""Texts in wrapped lines: one to scroll through, such as the help, and a panel that does not scroll."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from textual import events

from stalltop.model.text.figures import fit
from stalltop.widgets.drawing.frame import FrameEdge
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Line, Part, line_of, printable

_Look = TypeVar("_Look", str, Style | None)
"""How a part of a line looks: the name of a role, or a style."""


@dataclass(frozen=True, slots=True)
class PageLine:
    """One line of (text, role) parts. If it is wrapped, the rows after the first begin with ``indent``
    cells."""

    parts: tuple[tuple[str, str], ...] = ()
    indent: int = 0
    hang: str = ""
    """The text in the ``indent`` cells at the start of the rows after the first."""


class Page(Lines, can_focus=True):
    """Shows lines of text, wrapped at blanks, and scrolls."""

    def __init__(self, title: str, hint: str, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self._title = title
        self._hint = hint
        self._said = ""
        self._text: tuple[PageLine, ...] = ()
        self._top = 0
        self._most = 0

    def show(self, text: Sequence[PageLine], *, title: str = "", hint: str = "", said: str = "") -> None:
        """Show ``text`` and keep the scroll position. If ``title`` or ``hint`` is not empty, it replaces the
        current one. ``said`` is a message that is shown in place of the hint."""
        self._said = said
        self._text = tuple(text)
        self._title, self._hint = title or self._title, hint or self._hint
        self.redraw()

    def action_move(self, lines: int) -> None:
        """Scroll by ``lines``."""
        self._top = min(max(self._top + lines, 0), self._most)
        self.redraw()

    def action_page(self, pages: int) -> None:
        """Scroll by whole pages."""
        self.action_move(pages * max(self.size.height - 2, 1))

    def action_end(self, direction: int) -> None:
        """Scroll to the start (-1) or the end."""
        self.action_move(direction * 1_000_000)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down."""
        event.stop()
        self.action_move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up."""
        event.stop()
        self.action_move(-3)

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return the title and the rows of the text in view."""
        wrapped: list[Line] = []
        for line in self._text:
            parts: list[Part] = [(printable(text), getattr(paint, role)) for text, role in line.parts]
            before: Part = (line.hang, paint.dim)
            wrapped += [
                line_of([(" ", None), *row], width) for row in _wrapped(parts, width - 2, line.indent, before)
            ]
        self._most = max(len(wrapped) - (height - 1), 0)
        self._top = min(self._top, self._most)
        shown = wrapped[self._top : self._top + height - 1]
        position = f"{self._top + 1}-{self._top + len(shown)} of {len(wrapped)}  " if self._most else ""
        head: list[Part] = [(f" {self._title}", paint.bar + paint.head)]
        room = width - cell_len(self._title) - 1
        # Where there is little room, the hint loses its first entries, and at last all of them.
        entries = self._hint.split("  ")
        hints = (*("  ".join(entries[at:]) for at in range(len(entries))), "")
        fitting = (f"{f'{position}{hint}'.rstrip()} " for hint in hints)
        right = next((text for text in fitting if cell_len(text) < room), "")
        if self._said:
            said = printable(self._said)
            text = fit(said, min(cell_len(said), max(room - 3, 0)), self.glyphs)
            head.append((text.rjust(room - 1), paint.bar + paint.text))
        elif right:
            head.append((right.rjust(room), paint.bar + paint.dim))
        return [line_of(head, width, paint.bar), *shown]


@dataclass(frozen=True, slots=True)
class PanelText:
    """What a ``TextPanel`` shows."""

    title: str = ""
    about: str = ""
    """A remark for the frame."""
    text: Sequence[PageLine] = ()


class TextPanel(Lines):
    """Shows lines of text, wrapped, and leaves out those that have no room. The title is on the frame."""

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self._shown_text = PanelText()

    def show(self, text: PanelText) -> None:
        """Show ``text``."""
        self._shown_text = text
        self.redraw()

    def edges(self, paint: Palette) -> tuple[FrameEdge, FrameEdge]:
        """Return the title at the top, and the remark at the top or, if there is no room, at the bottom."""
        shown = self._shown_text
        title = [(printable(shown.title), paint.label)]
        remark = [(printable(shown.about), paint.dim)] if shown.about else []
        return FrameEdge(title, legend=remark), FrameEdge()

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return the first rows of the text."""
        rows: list[Line] = []
        for line in self._shown_text.text:
            if len(rows) >= height:
                break
            clean = replace(line, parts=tuple((printable(text), role) for text, role in line.parts))
            rows += [
                line_of([(text, getattr(paint, role)) for text, role in row], width)
                for row in wrapped(clean, width)
            ]
        return rows[:height]


@lru_cache(maxsize=1024)
def wrapped(line: PageLine, width: int) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Return ``line`` wrapped to rows of at most ``width`` cells. The latest results are kept: of a text that
    is made anew every second, few lines change, and panels ask several times how many rows a line fills."""
    return tuple(tuple(row) for row in _wrapped(line.parts, width, line.indent, (line.hang, "dim")))


def _wrapped(
    parts: Sequence[tuple[str, _Look]], width: int, indent: int, hang: tuple[str, _Look]
) -> list[list[tuple[str, _Look]]]:
    """Wrap ``parts`` to rows of at most ``width`` cells. Break at blanks, and within words longer than a
    row."""
    indent = min(indent, max(width - 10, 0))
    before = (set_cell_size(hang[0], indent), hang[1])
    rows: list[list[tuple[str, _Look]]] = [[]]
    used = 0
    for text, style in parts:
        for word in _words(text):
            length = cell_len(word)
            if used + cell_len(word.rstrip()) > width and used > indent:
                rows.append([before])
                used = indent
                word = word.lstrip()
                length = cell_len(word)
            if used + length > width and used + cell_len(word.rstrip()) <= width:
                word = word.rstrip()  # only the blank after the word has no room
                length = cell_len(word)
            while used + length > width and length > 1 and width > indent:
                rows[-1].append((word[: width - used], style))
                word = word[width - used :]
                if not word.strip():
                    word, length, used = "", 0, width  # only the blank after the word has no room
                    break
                length = cell_len(word)
                rows.append([before])
                used = indent
            rows[-1].append((word, style))
            used += length
    return rows


def _words(text: str) -> list[str]:
    """Split ``text`` after its blanks. The pieces joined are ``text`` again."""
    return _WORD.findall(text) or [""]


_WORD: Final = re.compile("^ +|[^ ]+ *")
"""Matches the blanks at the beginning of a text, and a word with the blanks after it."""
