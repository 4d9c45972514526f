"""A table that does not jump while its figures change.

The cursor belongs to the key of a row, so it follows the row when sorting moves it. Columns have fixed
widths; only cells that differ are repainted; nothing is animated. Line 0 is the title, line 1 the column
heads.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from textual import events
from textual.message import Message

from stalltop.widgets.drawing.frame import FrameEdge
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Line
from stalltop.widgets.table_data import Cell, Column, Role, TableData, TableRow, TableRows
from stalltop.widgets.table_drawing import TableDrawing, in_view

__all__ = ["HEAD_LINES", "Cell", "Column", "Role", "Table", "TableData", "TableRow", "TableRows"]

HEAD_LINES = 2
"""Lines above the rows: title and heads."""


class Table(Lines, can_focus=True):
    """Shows a ``TableData``, and handles the cursor, scrolling and choosing. Subclasses bind the keys."""

    @dataclass
    class RowChosen(Message):
        """Reports that the user chose a row: with Enter, or with a click on the row under the cursor."""

        table: Table
        key: Hashable

    @dataclass
    class HeadClicked(Message):
        """Reports that the head of a column was clicked."""

        table: Table
        column: str

    @dataclass
    class Moved(Message):
        """Reports that a key, the mouse wheel or a click moved the cursor to another row."""

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
        self._heads: list[tuple[int, int, str]] = []
        """The column heads as last drawn: (first cell, end, column id) of each."""
        self.badge = ""
        """The text right before the title on the frame, such as the key of the panel."""
        self.hints: tuple[tuple[str, Role], ...] = ()
        """Keys that are named after the title on the frame."""

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
            # If the table was not scrolled, the first rows stay in view. Otherwise the view follows the
            # cursor's row.
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
        case the cursor stays on the first line, whichever row is there."""
        return self._cursor_key

    def put_cursor(self, key: Hashable) -> None:
        """Move the cursor to the row ``key``, at once or when that row appears. None moves the cursor to the
        first line, where the cursor stays, whichever row is there."""
        self._cursor_key = key
        at = self.data.find(key)
        self._cursor = at or 0
        if at is not None:
            self._keep_in_view()
            self.redraw()

    @property
    def _page(self) -> int:
        return max(self.size.height - HEAD_LINES - self.frame.bottom, 1)

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
            x = event.x - self.frame.columns // 2
            for first, end, column in self._heads:
                if first <= x < end:
                    self.post_message(self.HeadClicked(self, column))
            return
        row = self._top + event.y - HEAD_LINES
        if event.y < HEAD_LINES or row >= min(len(self.data.rows), self._top + self._page):
            return
        if row == self._cursor:
            self.action_choose()
        else:
            self._go(row)

    # ---- drawing

    def edges(self, paint: Palette) -> tuple[FrameEdge, FrameEdge]:
        """Return the title, the keys, the legend and the position on the top edge of the frame."""
        drawing = TableDrawing(self.data, self.size.width, self.glyphs, paint, focused=self.has_focus)
        return drawing.edge(self.badge, self.hints, self._top, self._page), FrameEdge()

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return the title if it is not on a frame, the column heads and the rows in view."""
        data = self.data
        drawing = TableDrawing(data, width, self.glyphs, paint, focused=self.has_focus)
        shown = [] if self.frame.top else [drawing.title(self._top, self._page)]
        columns = in_view(data, width, self._side, reveal=self._reveal)
        self._side, self._reveal = columns.side, False
        self._keep_in_view()
        if not data.columns:
            return shown + (drawing.without_rows() if data.empty else [])
        head, self._heads = drawing.head(columns)
        shown.append(head)
        if not data.rows:
            return shown + drawing.without_rows()
        rows = range(self._top, min(self._top + self._page, len(data.rows)))
        if isinstance(data.rows, TableRows):
            data.rows.see(rows)
        return shown + [drawing.row(data.rows[at], columns, cursor=at == self._cursor) for at in rows]
