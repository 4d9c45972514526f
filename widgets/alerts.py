"""A list of problems and warnings, one line each, the worst first.

Without the focus the list shows its first lines. With the focus it has a cursor and scrolls.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from stalltop.model.text.figures import fit, middle
from stalltop.model.text.glyphs import Glyphs
from stalltop.widgets.lines import Lines
from stalltop.widgets.palette import Palette
from stalltop.widgets.strips import Part, printable, strip_of

LEAST_NAME = 16
"""A line that is too long is shortened in ``AlertRow.name``, which keeps at least this many cells."""
_LEAST = 8
"""A column that is cut to fewer cells is left blank, because so few letters tell nothing."""
_CULPRIT = 36
"""Cells of the culprit column in a list that is wide enough to show the fix after it."""
_TIGHT, _NARROW, _WIDE = 70, 100, 150
"""Widths in cells. Below ``_TIGHT`` the list leaves out the tenant that loses time; below ``_NARROW`` it
leaves out when a problem that is still open began; from ``_WIDE`` on it also shows the operation."""
_TIME = 14
"""Cells of ``since 12:03:44``."""


@dataclass(frozen=True, slots=True)
class AlertRow:
    """One line: either ``text`` alone, or ``title`` and the fields after it, each in a column of its own."""

    key: Hashable
    mark: str
    """One character that shows the severity without a colour."""
    role: str
    """Name of the palette's style that shows the severity."""
    text: str = ""
    name: str = ""
    """A part of ``text``, such as a path. It is cut in its middle before anything else of ``text`` is cut."""
    title: str = ""
    who: str = ""
    lost: str = ""
    """The time lost, with its unit, such as ``412ms/s``."""
    where: str = ""
    """The operation that is slow."""
    culprit: str = ""
    since: str = ""
    fix: str = ""
    """The fix. It shows only where the list is wide enough."""
    ended: str = ""
    """When the problem ended. The line is dim if this is set."""


class AlertList(Lines, can_focus=True):
    """Shows one line for each ``AlertRow``."""

    @dataclass
    class LineChosen(Message):
        """Tells that Enter or a click chose a line."""

        key: Hashable

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self._rows: tuple[AlertRow, ...] = ()
        self._more: tuple[AlertRow, ...] = ()
        self._tail = ""
        self._cursor = 0
        self._cursor_key: Hashable = None
        self._top = 0

    # ---- what is shown

    def show(self, rows: Sequence[AlertRow], more: Sequence[AlertRow] = (), tail: str = "") -> None:
        """Show ``rows``, and with the focus ``more`` below them. The cursor stays on its row.

        The last line ends with the number of hidden rows and ``tail``.
        """
        self._rows, self._more, self._tail = tuple(rows), tuple(more), tail
        keys = [row.key for row in self._all]
        if self._cursor_key in keys:
            self._cursor = keys.index(self._cursor_key)
        self._keep_in_view()
        self.redraw()

    @property
    def _all(self) -> tuple[AlertRow, ...]:
        return self._rows + self._more if self.has_focus else self._rows

    @property
    def wanted(self) -> int:
        """Return the number of lines that all rows take."""
        return len(self._all)

    @property
    def cursor_key(self) -> Hashable:
        """Return the key of the row under the cursor; None if there are no rows."""
        return self._all[self._cursor].key if self._cursor < len(self._all) else None

    def put_cursor(self, key: Hashable) -> None:
        """Move the cursor to the row ``key``, now or as soon as it is shown."""
        self._cursor_key = key
        self.show(self._rows, self._more, self._tail)

    def _keep_in_view(self) -> None:
        rows, page = len(self._all), max(self.size.height, 1)
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
        if not has_focus:
            self._cursor, self._cursor_key = 0, None
        self._keep_in_view()
        self.redraw()

    # ---- keys and mouse

    def action_move(self, rows: int) -> None:
        """Move the cursor by ``rows``."""
        self._cursor += rows
        self._keep_in_view()
        self._cursor_key = self.cursor_key
        self.redraw()

    def action_page(self, pages: int) -> None:
        """Move the cursor by whole pages."""
        self.action_move(pages * max(self.size.height - 1, 1))

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

    def on_click(self, event: events.Click) -> None:
        """Choose the line that was clicked."""
        at = self._top + event.y
        if at < len(self._all):
            self._cursor, self._cursor_key = at, self._all[at].key
            self.redraw()
            self.action_choose()

    # ---- drawing

    def lines(self, width: int, height: int, paint: Palette) -> list[Strip]:
        """Return the lines in view. The last one also tells how many rows are hidden."""
        rows = self._all
        shown = rows[self._top : self._top + height]
        hidden = len(rows) - len(shown)
        tail = "  ".join(part for part in (self._hidden(hidden, rows, shown), self._tail) if part)
        drawn = []
        for at, row in enumerate(shown):
            last = at == len(shown) - 1
            room = width - cell_len(tail) - 3 if last and tail else width
            over = paint.cursor if self.has_focus and self._top + at == self._cursor else None
            # ``tail`` covers the end of the last line. The columns are not made narrower for it, so they stay
            # below those of the lines above.
            parts = self._row(row, room if row.text else width, over, paint)
            if last and tail:
                parts = [
                    *_padded(parts, room, over, self.glyphs),
                    ("  " + tail + " ", over or paint.dim),
                ]
            drawn.append(strip_of(parts, width, over))
        return drawn

    def _hidden(self, hidden: int, rows: Sequence[AlertRow], shown: Sequence[AlertRow]) -> str:
        if self.has_focus:
            return f"{self._top + 1}-{self._top + len(shown)} of {len(rows)}" if hidden else ""
        return f"+{hidden} more" if hidden else ""

    def _row(self, row: AlertRow, width: int, over: Style | None, paint: Palette) -> list[Part]:
        role: Style = getattr(paint, row.role)
        mark_style = role if over is None or role.bgcolor else role + over
        parts: list[Part] = [
            (self.glyphs.cursor if over is not None else " ", over),
            (row.mark, mark_style),
            (" ", over),
        ]
        room = max(width - 3, 0)
        if row.text:
            text = self._sentence(row, room)
            return [*parts, (text, (role + over) if over is not None else role)]
        plain = paint.dim if row.ended else paint.text
        dim, loud = paint.dim, (paint.dim if row.ended else role if not role.bgcolor else paint.bad)
        for text, wide, style in self._columns(row, room, plain, dim, loud):
            parts.append((fit(printable(text), wide, self.glyphs), style + over if over else style))
            parts.append((" ", over))
        return parts

    def _columns(
        self, row: AlertRow, width: int, plain: Style, dim: Style, loud: Style
    ) -> list[tuple[str, int, Style]]:
        """Return (text, cells, style) for each column, left to right. Columns and the blanks between them
        take ``width`` cells."""
        if width < _NARROW:
            return self._narrow(row, width, plain, dim, loud)
        columns = [(row.title, 36, loud), (row.who, 18, plain), (row.lost, 8, plain)]
        if width >= _WIDE:
            columns.append((row.where, 26, plain))
        since = f"ended {row.ended}" if row.ended else f"since {row.since}" if row.since else ""
        rest = width - sum(wide + 1 for _, wide, _ in columns) - _TIME - 1
        helps = max(rest - 1 - _CULPRIT, 0) if width >= _WIDE else 0
        columns.append((row.culprit, rest - 1 - helps, plain))
        if helps:
            columns.append((row.fix, helps - 1, dim))
        return [*columns, (since, _TIME, dim)]

    def _narrow(
        self, row: AlertRow, width: int, plain: Style, dim: Style, loud: Style
    ) -> list[tuple[str, int, Style]]:
        """Return (text, cells, style) for each column of a list narrower than ``_NARROW`` cells, left to
        right.

        In a narrower list the tenant is left out first, then the culprit. From ``_TIGHT`` cells on, the line
        of a problem that ended shows the time of its end in place of the time lost.
        """
        rest = width - 30 - 1 - 8 - 1
        if rest < 8:
            return [(row.title, max(width - 9, 1), loud), (row.lost, 8, plain)]
        if width < _TIGHT:
            return [(row.title, 30, loud), (row.lost, 8, plain), (row.culprit, rest, plain)]
        rest -= 13
        columns = [(row.title, 30, loud), (row.who, 12, plain)]
        if row.ended:
            when = (f"ended {row.ended}", _TIME, dim)
            return [*columns, when, (row.culprit, rest + 8 - _TIME, plain)]
        return [*columns, (row.lost, 8, plain), (row.culprit, rest, plain)]

    def _sentence(self, row: AlertRow, room: int) -> str:
        text = printable(row.text)
        if row.name and cell_len(text) > room:
            name = printable(row.name)
            short = max(cell_len(name) - (cell_len(text) - room), LEAST_NAME)
            if short < cell_len(name):
                text = text.replace(name, middle(name, short, self.glyphs), 1)
        return fit(text, min(cell_len(text), room), self.glyphs)


def _padded(parts: list[Part], width: int, fill: Style | None, glyphs: Glyphs) -> list[Part]:
    """Cut or pad ``parts`` to exactly ``width`` cells. A part that would be cut to fewer than ``_LEAST``
    cells becomes blanks."""
    kept: list[Part] = []
    for text, style in parts:
        length = cell_len(text)
        if length > width:
            kept.append((fit(text if width >= _LEAST else "", width, glyphs), style))
            return kept
        kept.append((text, style))
        width -= length
    return [*kept, (" " * width, fill)]
