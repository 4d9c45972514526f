"""A list of problems and warnings, one line each, the worst first.

Without the focus the list shows its first lines. With the focus it has a cursor and scrolls.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events
from textual.message import Message

from stalltop.widgets.alert_drawing import AlertDrawing, AlertRow, padded
from stalltop.widgets.drawing.frame import FrameEdge, titled
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Line, line_of

__all__ = ["AlertList", "AlertRow"]


class AlertList(Lines, can_focus=True):
    """Shows one line for each ``AlertRow``."""

    @dataclass
    class LineChosen(Message):
        """Reports that Enter or a click chose a line."""

        key: Hashable

    class LineMoved(Message):
        """Reports that a key moved the cursor."""

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self._rows: tuple[AlertRow, ...] = ()
        self._more: tuple[AlertRow, ...] = ()
        self._tail = ""
        self._brief: tuple[AlertRow, ...] = ()
        self._drawn_rows: tuple[AlertRow, ...] = ()
        """The rows as last drawn without the focus."""
        self._focus_is_new = False
        """Whether the list got the focus just now, maybe from the mouse button that is being pressed."""
        self._clickable: tuple[AlertRow, ...] = ()
        """The rows as they were when the mouse button was pressed."""
        self.title: tuple[str, str, str] = ("", "", "")
        """The texts on the frame: the badge before the title, the title, and the keys after it."""
        self._cursor = 0
        self._cursor_key: Hashable = None
        self._top = 0

    # ---- what is shown

    def show(
        self,
        rows: Sequence[AlertRow],
        more: Sequence[AlertRow] = (),
        tail: str = "",
        brief: Sequence[AlertRow] | None = None,
    ) -> None:
        """Show ``rows``. While the list has the focus, also show ``more`` below them. The cursor stays on its
        row.

        The last line ends with the number of hidden rows, if any, and ``tail``. Without the focus, ``brief``
        is shown in place of ``rows``.
        """
        self._rows, self._more, self._tail = tuple(rows), tuple(more), tail
        self._brief = self._rows if brief is None else tuple(brief)
        keys = [row.key for row in self._all]
        if self._cursor_key in keys:
            self._cursor = keys.index(self._cursor_key)
        self._keep_in_view()
        self.redraw()

    @property
    def _all(self) -> tuple[AlertRow, ...]:
        return self._rows + self._more if self.has_focus else self._brief

    @property
    def needed(self) -> int:
        """Return the number of lines that the list takes without the focus."""
        return len(self._brief)

    @property
    def wanted(self) -> int:
        """Return the number of lines that the list would take now: with the focus also those for ``more``."""
        return len(self._all)

    @property
    def cursor_key(self) -> Hashable:
        """Return the key of the row under the cursor; None if there are no rows."""
        return self._all[self._cursor].key if self._cursor < len(self._all) else None

    def put_cursor(self, key: Hashable) -> None:
        """Move the cursor to the row ``key``, now or as soon as it is shown."""
        self._cursor_key = key
        self.show(self._rows, self._more, self._tail, self._brief)

    def _keep_in_view(self) -> None:
        rows, page = len(self._all), max(self.size.height - self.frame.lines, 1)
        self._cursor = min(max(self._cursor, 0), max(rows - 1, 0))
        self._top = min(max(self._top, self._cursor - page + 1, 0), self._cursor)
        self._top = max(min(self._top, rows - page), 0)
        if not self.has_focus:
            self._top = 0

    def on_resize(self, event: events.Resize) -> None:
        """Keep the cursor in view."""
        self._keep_in_view()
        super().on_resize(event)

    def watch_has_focus(self, has_focus: bool) -> None:
        """Show the cursor while the list has the focus. The cursor starts at the worst row."""
        super().watch_has_focus(has_focus)
        if has_focus:
            # If a click gives the focus, its event for the pressed button is in the queue already.
            self._focus_is_new = True
            self.call_later(self._focus_is_old)
        else:
            self._cursor, self._cursor_key = 0, None
        self._keep_in_view()
        self.redraw()

    # ---- keys and mouse

    def action_move(self, rows: int) -> None:
        """Move the cursor by ``rows``."""
        self._cursor += rows
        self._keep_in_view()
        self._cursor_key = self.cursor_key
        self.post_message(self.LineMoved())
        self.redraw()

    def action_page(self, pages: int) -> None:
        """Move the cursor by whole pages."""
        self.action_move(pages * max(self.size.height - self.frame.lines - 1, 1))

    def action_end(self, direction: int) -> None:
        """Move the cursor to the first (-1) or the last row."""
        self.action_move(direction * len(self._all))

    def action_sideways(self, columns: int) -> None:
        """Do nothing: the list has no columns to scroll to."""

    def action_choose(self) -> None:
        """Post ``LineChosen`` for the row under the cursor."""
        if self.cursor_key is not None:
            self.post_message(self.LineChosen(self.cursor_key))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move the cursor down."""
        event.stop()
        if self.has_focus:
            self.action_move(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move the cursor up."""
        event.stop()
        if self.has_focus:
            self.action_move(-1)

    def _focus_is_old(self) -> None:
        self._focus_is_new = False

    def on_mouse_down(self) -> None:
        """Remember the rows under the mouse, because they move when the click gives the list the focus."""
        self._clickable = self._drawn_rows if self._focus_is_new else self._all

    def on_click(self, event: events.Click) -> None:
        """Choose the line that was clicked."""
        rows, at = self._clickable or self._all, self._top + event.y - bool(self.frame.top)
        if self._top <= at < len(rows):
            self.put_cursor(rows[at].key)
            self.action_choose()

    # ---- drawing

    def edges(self, paint: Palette) -> tuple[FrameEdge, FrameEdge]:
        """Return the title and the keys on the top edge of the frame."""
        return titled(*self.title, paint, focused=self.has_focus), FrameEdge()

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return the lines in view. The last one also shows how many rows are hidden."""
        rows = self._all
        if not self.has_focus:
            self._drawn_rows = rows
        if not rows and self._rows:
            return [line_of([("  no other problem", paint.dim)], width)]
        shown = rows[self._top : self._top + height]
        hidden = _hidden(self._top, len(shown), len(rows), focused=self.has_focus)
        tail = "  ".join(part for part in (hidden, self._tail) if part)
        drawing = AlertDrawing(self.glyphs, paint)
        drawn = []
        for at, row in enumerate(shown):
            last = at == len(shown) - 1
            room = width - cell_len(tail) - 3 if last and tail else width
            over = paint.cursor if self.has_focus and self._top + at == self._cursor else None
            # ``tail`` covers the end of the last line. The columns of that line keep their width,
            # so that they stay aligned with those of the lines above.
            parts = drawing.line(row, room if row.text else width, over)
            if last and tail:
                parts = [
                    *padded(parts, room, over, self.glyphs),
                    ("  " + tail + " ", over or paint.dim),
                ]
            drawn.append(line_of(parts, width, over))
        return drawn


def _hidden(first: int, shown: int, rows: int, *, focused: bool) -> str:
    """Return how many of ``rows`` lines are hidden if ``shown`` lines from number ``first`` on are in view.
    With the focus, return which lines are in view instead. Return '' if none are hidden."""
    if shown == rows:
        return ""
    return f"{first + 1}-{first + shown} of {rows}" if focused else f"+{rows - shown} more"
