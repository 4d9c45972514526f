"""A table that does not jump while its figures change.

The cursor belongs to the key of a row, so it follows the row when sorting moves it. Columns have fixed
widths; only cells that differ are repainted; nothing is animated. Line 0 is the title, line 1 the column
heads.
"""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from stalltop.model.text.figures import fit
from stalltop.model.text.glyphs import Glyphs
from stalltop.widgets.lines import Lines
from stalltop.widgets.palette import Palette
from stalltop.widgets.strips import PLAIN, Part, printable, strip_of
from stalltop.widgets.table_data import Cell, Column, Role, TableData, TableRow, TableRows

__all__ = ["HEAD_LINES", "Cell", "Column", "Role", "Table", "TableData", "TableRow", "TableRows"]


UNSURE = "~"
"""Stands before a figure that few calls support, in themes where ``dim`` looks like plain text."""
HEAD_LINES = 2
"""Lines above the rows: title and heads."""


class Table(Lines, can_focus=True):
    """Shows a ``TableData``, and handles the cursor, scrolling and choosing. Subclasses bind the keys."""

    @dataclass
    class RowChosen(Message):
        """Tells that Enter, or a click on the row that has the cursor, chose a row."""

        table: Table
        key: Hashable

    @dataclass
    class HeadClicked(Message):
        """Tells that the head of a column was clicked."""

        table: Table
        column: str

    @dataclass
    class Moved(Message):
        """Tells that a key or a click moved the cursor to another row."""

        table: Table

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self.data = TableData()
        self._cursor = 0
        self._cursor_key: Hashable = None
        self._top = 0
        self._side = 0
        self._reveal = False
        """Set when the sort column changed: the next drawing scrolls sideways until that column is
        visible."""
        self._heads: list[tuple[int, int, str]] = []  # (first cell, end, column id) as drawn

    # ---- what is shown

    def show(self, data: TableData) -> None:
        """Show ``data``. The cursor stays on its row and, where possible, that row stays on its line."""
        old_line = self._cursor - self._top
        self._reveal |= bool(self.data.sort) and data.sort != self.data.sort
        self.data = data
        at = data.find(self._cursor_key)
        if at is None:
            at = min(self._cursor, max(len(data.rows) - 1, 0))
        if at != self._cursor:
            # Without scrolling the first rows stay in view. Otherwise the view follows the row of the cursor.
            self._cursor = at
            if self._top > 0:
                self._top = at - old_line
        self._keep_in_view()
        self.redraw()

    @property
    def cursor_key(self) -> Hashable:
        """Return the key of the row under the cursor; None if there are no rows."""
        return self.data.key(self._cursor) if self.data.rows else None

    @property
    def chosen_key(self) -> Hashable:
        """Return the key of the row to which the cursor was moved; None if the cursor was not moved. In that
        case it stays on the first line, whichever row is there."""
        return self._cursor_key

    def put_cursor(self, key: Hashable) -> None:
        """Move the cursor to the row ``key``, at once or when that row appears. None moves the cursor to the
        first line, where it stays, whichever row is there."""
        self._cursor_key = key
        at = self.data.find(key)
        self._cursor = at or 0
        if at is not None:
            self._keep_in_view()
            self.redraw()

    @property
    def _page(self) -> int:
        return max(self.size.height - HEAD_LINES, 1)

    def _keep_in_view(self) -> None:
        rows = len(self.data.rows)
        self._cursor = min(max(self._cursor, 0), max(rows - 1, 0))
        self._top = min(max(self._top, self._cursor - self._page + 1, 0), self._cursor)
        self._top = max(min(self._top, rows - self._page), 0)

    def on_resize(self, event: events.Resize) -> None:
        """Keep the cursor in view."""
        self._keep_in_view()
        super().on_resize(event)

    def watch_has_focus(self, has_focus: bool) -> None:
        """Show the cursor while the table has the focus."""
        super().watch_has_focus(has_focus)
        self.redraw()

    # ---- keys and mouse

    def action_move(self, rows: int) -> None:
        """Move the cursor by ``rows``."""
        self._go(self._cursor + rows)

    def action_page(self, pages: int) -> None:
        """Move the cursor by whole pages."""
        self._go(self._cursor + pages * self._page)

    def action_end(self, direction: int) -> None:
        """Move the cursor to the first (-1) or the last row."""
        self._go(0 if direction < 0 else len(self.data.rows) - 1)

    def action_sideways(self, columns: int) -> None:
        """Scroll sideways by ``columns``. The scroll position stays within the columns."""
        self._side = max(self._side + columns, 0)
        self.redraw()

    def action_choose(self) -> None:
        """Post ``RowChosen`` for the row under the cursor."""
        if self.data.rows:
            self.post_message(self.RowChosen(self, self.cursor_key))

    def _go(self, row: int) -> None:
        if not self.data.rows:
            return
        self._cursor = min(max(row, 0), len(self.data.rows) - 1)
        if self._cursor_key != self.cursor_key:
            self._cursor_key = self.cursor_key
            self.post_message(self.Moved(self))
        self._keep_in_view()
        self.redraw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move the cursor down."""
        event.stop()
        self.action_move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move the cursor up."""
        event.stop()
        self.action_move(-3)

    def on_click(self, event: events.Click) -> None:
        """Sort by a column if its head was clicked. A click on a row moves the cursor to that row; a click on
        the row under the cursor chooses that row."""
        if event.y == 1:
            for first, end, column in self._heads:
                if first <= event.x < end:
                    self.post_message(self.HeadClicked(self, column))
            return
        row = self._top + event.y - HEAD_LINES
        if event.y < HEAD_LINES or row >= len(self.data.rows):
            return
        if row == self._cursor:
            self.action_choose()
        else:
            self._go(row)

    # ---- drawing

    def lines(self, width: int, height: int, paint: Palette) -> list[Strip]:
        """Return the title, the column heads and the rows in view."""
        data = self.data
        shown = [self._title(width, paint)]
        columns, more_left, more_right = self._in_view(width)
        self._keep_in_view()
        if not data.columns:
            return shown
        shown.append(self._head(columns, more_left, more_right, width, paint))
        if not data.rows:
            shown.append(strip_of((), width))
            for line in data.empty:
                parts = textwrap.wrap(printable(line), max(width - 6, 10))
                shown.extend(strip_of([("   " + part, paint.dim)], width) for part in parts)
            return shown
        for at in range(self._top, min(self._top + self._page, len(data.rows))):
            cursor = at == self._cursor
            shown.append(self._row(data.rows[at], columns, cursor, width, paint))
        return shown

    def _in_view(self, width: int) -> tuple[list[tuple[int, Column, int]], bool, bool]:
        """Return (index, column, width) of the columns that fit, and whether columns are hidden left and
        right."""
        columns = list(enumerate(self.data.columns))
        fixed = [(i, c, c.width) for i, c in columns if c.fixed]
        others = [(i, c, c.width) for i, c in columns if not c.fixed]
        room = width - 1 - sum(w + 1 for _, _, w in fixed)
        # Scrolling ends where the last column becomes visible.
        last = len(others) - 1
        needed = 0
        while last >= 0 and needed + others[last][2] + 1 <= room:
            needed += others[last][2] + 1
            last -= 1
        if self._reveal:
            self._reveal = False
            self._side = _seen(others, self.data.sort, self._side, room)
        self._side = min(self._side, last + 1)
        fitting: list[tuple[int, Column, int]] = []
        for index, column, wide in others[self._side :]:
            if room < wide + 1:
                break
            fitting.append((index, column, wide))
            room -= wide + 1
        more_right = self._side + len(fitting) < len(others)
        if fixed:
            index, column, wide = fixed[0]
            wide += max(room, 0)
            fixed[0] = (index, column, min(wide, column.most) if column.most else wide)
        return fixed + fitting, self._side > 0, more_right

    def _title(self, width: int, paint: Palette) -> Strip:
        rows = len(self.data.rows)
        position = ""
        if rows > self._page:
            position = f" {self._top + 1}-{min(self._top + self._page, rows)} of {rows} "
        parts: list[Part] = [(" ", None)]
        for text, role in self.data.title:
            style = self._style(role, paint)
            if role == "head" and not self.has_focus:
                style = paint.label
            parts.append((printable(text), style))
        used = sum(cell_len(text) for text, _ in parts)
        if position and used + len(position) > width:
            room = max(width - len(position), 0)
            parts = [(text, style) for text, style in _cut(parts, room, self.glyphs)]
            used = room
        legend = [(text, self._style(role, paint)) for text, role in self.data.legend]
        room = width - used - len(position) - sum(cell_len(text) for text, _ in legend)
        if room >= 3:
            parts += [(" " * room, None), *legend, (position, paint.dim)]
        else:
            parts.append((position.rjust(width - used), paint.dim))
        return strip_of(parts, width)

    def _head(
        self, columns: list[tuple[int, Column, int]], left: bool, right: bool, width: int, paint: Palette
    ) -> Strip:
        glyphs = self.glyphs
        mark = glyphs.down if self.data.descending else glyphs.up
        text_parts: list[Part] = [(glyphs.left if left else " ", paint.label)]
        self._heads = []
        at = 1
        for _, column, wide in columns:
            title, style = column.title, paint.label
            if column.id == self.data.sort:
                title = mark + title if column.right else title + mark
                style = paint.head
            if column.right and cell_len(title) == wide + 1 and text_parts[-1][0] == " " and at > 1:
                text_parts.pop()  # the mark replaces the blank between two columns
                text_parts.append((title, style))
            else:
                title = title[:wide].rjust(wide) if column.right else title[:wide].ljust(wide)
                text_parts.append((title, style))
            text_parts.append((" ", paint.label))
            self._heads.append((at, at + wide, column.id))
            at += wide + 1
        if right:
            text_parts[-1] = (" " * (width - at) + glyphs.right, paint.accent)
        return strip_of(text_parts, width, paint.label)

    def _row(
        self,
        row: TableRow,
        columns: Sequence[tuple[int, Column, int]],
        cursor: bool,
        width: int,
        paint: Palette,
    ) -> Strip:
        marked = cursor and self.has_focus
        over = paint.cursor if marked else None
        # The row of the cursor begins with an arrow in the table that has the focus, with a dot in other
        # tables.
        glyphs = self.glyphs
        sign = glyphs.cursor if marked else glyphs.place
        parts: list[Part] = [(sign if cursor else " ", over or paint.dim)]
        for place, (index, column, wide) in enumerate(columns):
            cell = row.cells[index]
            if cell.parts:
                parts += [(text, self._style(role, paint)) for text, role in cell.parts]
            elif place == 0:
                mark = row.mark if wide > 4 else None
                text = fit(printable(cell.text), wide - 2 if mark else wide, glyphs)
                parts += _emphasized(text, cell.found, self._under(cell.role, over, paint))
                if mark is not None:
                    parts.append((" ", over))
                    parts.append((fit(mark.text, 1), self._under(mark.role, over, paint)))
            else:
                text = printable(cell.text)
                if cell.unsure and not paint.greys:
                    text = UNSURE + text.lstrip()
                    if cell_len(text) == wide + 1:
                        parts.pop()  # the sign replaces the blank between two columns
                        parts.append((text[0], over))
                        text = text[1:]
                blanks = wide - cell_len(text) if column.right else 0
                text = " " * blanks + text if blanks > 0 else fit(text, wide, glyphs)
                parts.append((text, self._under(cell.role, over, paint)))
            parts.append((" ", over))
        return strip_of(parts, width, over)

    def _under(self, role: Role, over: Style | None, paint: Palette) -> Style | None:
        """Return the style of ``role``, combined with ``over``, the style of the cursor; ``over`` is None in
        a row without the cursor."""
        style = self._style(role, paint) if role else None
        if over is None:
            return style
        if style is None or over.reverse:
            return over
        if role == "critical":
            return style
        if role in ("warn", "bad"):
            # Warnings stay visible under the cursor: their colour becomes the background.
            return over + Style(color=paint.ground.bgcolor, bgcolor=style.color)
        return style + over

    @staticmethod
    def _style(role: Role, paint: Palette) -> Style:
        style: Style = getattr(paint, role or "text")
        return style


_FOUND = Style(bold=True, underline=True)
"""Added to the style of letters that the filter found. It is visible without colours too."""


def _emphasized(text: str, spans: Sequence[tuple[int, int]], style: Style | None) -> list[Part]:
    """Split ``text`` into parts in ``style``; the letters in ``spans`` stand out."""
    parts: list[Part] = []
    at = 0
    for start, end in spans:
        parts += [(text[at:start], style), (text[start:end], (style or PLAIN) + _FOUND)]
        at = end
    parts.append((text[at:], style))
    return parts


def _seen(columns: Sequence[tuple[int, Column, int]], wanted: str, side: int, room: int) -> int:
    """Return the first column to show, as near to ``side`` as possible, so that column ``wanted`` fits in
    ``room`` cells."""
    at = next((at for at, (_, column, _) in enumerate(columns) if column.id == wanted), None)
    if at is None:
        return side
    first, used = at, columns[at][2] + 1
    while first > 0 and used + columns[first - 1][2] + 1 <= room:
        first -= 1
        used += columns[first][2] + 1
    return min(max(side, first), at)


def _cut(parts: Sequence[Part], room: int, glyphs: Glyphs) -> list[Part]:
    """Cut ``parts`` to ``room`` cells, or fill them up with blanks."""
    kept: list[Part] = []
    for text, style in parts:
        length = cell_len(text)
        if length > room:
            kept.append((fit(text, room, glyphs), style))
            return kept
        kept.append((text, style))
        room -= length
    kept.append((" " * room, None))
    return kept
