"""A list of texts of several lines, of which the user chooses one.

The cursor stands on one entry and stays in view. Headings have no cursor.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.message import Message

from stalltop.model.text.figures import fit
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Line, Part, line_of, printable
from stalltop.widgets.page import PageLine, wrapped


@dataclass(frozen=True, slots=True)
class ListEntry:
    """One entry of the list. The cursor marks its first line."""

    lines: tuple[PageLine, ...]
    key: Hashable = None
    """Identifies the entry; None for a heading, which cannot be chosen."""


class EntryList(Lines, can_focus=True):
    """Shows entries and a cursor. Subclasses bind the keys."""

    @dataclass
    class EntryChosen(Message):
        """Reports that Enter, or a click on the entry that has the cursor, chose an entry."""

        key: Hashable

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self._entries: tuple[ListEntry, ...] = ()
        self._title = self._said = ""
        self._hints: tuple[str, ...] = ()
        self._at = 0
        """Index of the entry under the cursor among those with a key."""
        self._top = 0
        self._rows: list[int] = []
        """For each row of the text: the index of its entry in ``_entries``."""

    @property
    def cursor_key(self) -> Hashable:
        """Return the key of the entry under the cursor; None if there is no entry."""
        keys = self._keys
        return keys[min(self._at, len(keys) - 1)] if keys else None

    @property
    def _keys(self) -> list[Hashable]:
        return [entry.key for entry in self._entries if entry.key is not None]

    def show(self, entries: Sequence[ListEntry], *, title: str, hints: Sequence[str], said: str = "") -> None:
        """Show ``entries``. The first of ``hints`` for which there is room is shown at the right of the
        title; if there is room for none, the title is cut for the last one. ``said`` is a message that
        replaces the hint, and also the title if there is no room for both."""
        self._entries, self._title, self._said = tuple(entries), title, said
        self._hints = tuple(hints)
        self.redraw()

    def action_move(self, steps: int) -> None:
        """Move the cursor by ``steps`` entries."""
        self._at = min(max(self._at + steps, 0), max(len(self._keys) - 1, 0))
        self.redraw()

    def action_page(self, pages: int) -> None:
        """Move the cursor by about a page."""
        self.action_move(pages * max((self.size.height - 1) // 3, 1))

    def action_end(self, direction: int) -> None:
        """Move the cursor to the first (-1) or the last entry."""
        self.action_move(direction * 1_000_000)

    def action_choose(self) -> None:
        """Choose the entry under the cursor."""
        if self.cursor_key is not None:
            self.post_message(self.EntryChosen(self.cursor_key))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move the cursor down."""
        event.stop()
        self.action_move(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move the cursor up."""
        event.stop()
        self.action_move(-1)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the entry under the mouse, or choose it if the cursor is there already."""
        row = event.y - 1 + self._top
        if event.y < 1 or row >= len(self._rows):
            return
        key = self._entries[self._rows[row]].key
        if key is not None and key == self.cursor_key:
            self.action_choose()
        elif key is not None:
            self._at = self._keys.index(key)
            self.redraw()

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return the title and the rows in view."""
        rows: list[Line] = []
        self._rows = []
        first = last = 0
        here = self.cursor_key
        for at, entry in enumerate(self._entries):
            marked = entry.key is not None and entry.key == here
            begin = len(rows)
            for number, line in enumerate(entry.lines):
                fill = paint.cursor if marked and number == 0 else None
                rows += [_strip(row, width, paint, fill) for row in _rows(line, width - 2)]
            self._rows += [at] * (len(rows) - begin)
            if marked:
                # The first entry that has a key is shown together with the headings above it.
                first, last = (begin if self._at else 0), len(rows)
        room = max(height - 1, 1)
        self._top = min(max(self._top, last - room, 0), first, max(len(rows) - room, 0))
        shown = rows[self._top : self._top + room]
        return [self._head(width, paint, len(rows), len(shown)), *shown]

    def _head(self, width: int, paint: Palette, rows: int, shown: int) -> Line:
        title = printable(self._title)
        if self._said:
            said = printable(self._said)
            room = width - 2
            text = said if cell_len(title) + cell_len(said) + 3 > width else f"{title}  {said}"
            text = fit(text, min(cell_len(text), room), self.glyphs)
            return line_of([(f" {text}", paint.bar + paint.text)], width, paint.bar)
        position = f"{self._top + 1}-{self._top + shown} of {rows}  " if shown < rows else ""
        rights = [f" {position}{hint} " for hint in self._hints] or [f" {position}"]
        right = next((one for one in rights if cell_len(one) < width - cell_len(title)), rights[-1])
        room = max(width - 1 - cell_len(right), 0)
        head: list[Part] = [
            (" ", paint.bar),
            (fit(title, room, self.glyphs), paint.bar + paint.head),
            (right, paint.bar + paint.dim),
        ]
        return line_of(head, width, paint.bar)


def _rows(line: PageLine, width: int) -> tuple[tuple[tuple[str, str], ...], ...]:
    clean = PageLine(tuple((printable(text), role) for text, role in line.parts), line.indent, line.hang)
    return wrapped(clean, width)


def _strip(row: Sequence[tuple[str, str]], width: int, paint: Palette, fill: Style | None) -> Line:
    look: Style = fill if fill is not None else Style()
    parts: list[Part] = [(" ", look), *((text, getattr(paint, role) + look) for text, role in row)]
    return line_of(parts, width, fill)
