"""Places one to three tables, and divides the room among them."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical

from stalltop.tui.keys import bindings
from stalltop.tui.main.layout import OTHER_LINES, ScreenLayout, first_cells, heights, in_steps, third_below
from stalltop.widgets.table import HEAD_LINES, Table


class GroupTable(Table, can_focus=True):
    """A table of groups with the key bindings of ``tui.keys``."""

    BINDINGS = bindings("table")


class TableRoom(Vertical):
    """Shows the second table below the first or beside it, and a third one below the shorter of two side by
    side."""

    def __init__(self, widget_id: str) -> None:
        super().__init__(id=widget_id)
        self._layout = ScreenLayout()
        self._share = 50
        self._gives = True
        """Whether the first table gives some of its width to the second."""
        self._lines = (0, 0)
        """The most lines that the first and the second table needed since their content was chosen."""
        self._stand: tuple[object, ...] = ()
        """The current placement, to change styles only when it differs."""

    def compose(self) -> ComposeResult:
        """Yield the tables in order."""
        yield GroupTable("main")
        yield GroupTable("second")
        yield GroupTable("third")

    def on_mount(self) -> None:
        """Hide the third table until there is room for it."""
        self.third.display = False

    @property
    def main(self) -> GroupTable:
        """Return the first table."""
        return self.query_one("#main", GroupTable)

    @property
    def second(self) -> GroupTable:
        """Return the second table, which may be hidden."""
        return self.query_one("#second", GroupTable)

    @property
    def third(self) -> GroupTable:
        """Return the third table, which may be hidden."""
        return self.query_one("#third", GroupTable)

    @property
    def others(self) -> tuple[GroupTable, GroupTable]:
        """Return the second and the third table."""
        return self.second, self.third

    def forget_lines(self) -> None:
        """Forget how many lines the tables needed, because they now show something else."""
        self._lines = (0, 0)

    def cells_of(self, widget: Table) -> int:
        """Return the width of a table in cells."""
        width = self.app.size.width
        if not (self._layout.beside and self.second.display):
            return width
        left = widget is self.main or (widget is self.third and self._below() == "first")
        return self._first_width if left else width - self._first_width

    @property
    def _first_width(self) -> int:
        """Return the width of the first table beside a second one."""
        return first_cells(self.app.size.width, self._share, gives=self._gives)

    def _below(self) -> str:
        """Return which of two tables side by side leaves room for a third one below it; empty if none
        does."""
        if not (self._layout.beside and self.second.display):
            return ""
        return third_below(self.size.height or self.app.size.height - OTHER_LINES, *self._lines)

    def share_room(self, *, third: bool) -> None:
        """Divide the room. A table gets the lines that another one does not need; with ``third``, a third
        table may get them.

        While the tables show the same thing they only grow, by several lines at once, so that borders seldom
        move.
        """
        needed = (len(widget.data.rows) + HEAD_LINES for widget in (self.main, self.second))
        first, second = map(max, self._lines, needed)
        self._lines = (first, second)
        below = self._below() if third else ""
        two, beside = self.second.display, self._layout.beside
        found: tuple[str, str] = ("1fr", "1fr")
        if two and not beside:
            found = heights(self.app.size.height, self._share, first, second)
        lines = in_steps(first if below == "first" else second)
        stand = (two, beside, below, found, lines if below else 0, self._first_width)
        if stand == self._stand:
            return
        self._stand = stand
        self.third.display = bool(below)
        main, other = self.main.styles, self.second.styles
        main.row_span = 2 if below == "second" else 1
        other.row_span = 2 if below == "first" else 1
        main.height, other.height = found
        if below:
            self.styles.layout = "grid"
            self.styles.grid_size_columns = self.styles.grid_size_rows = 2
            self.styles.grid_columns = f"{self._first_width} 1fr"
            self.styles.grid_rows = f"{lines} 1fr"
            main.width = other.width = main.height = other.height = "100%"
            return
        self.styles.layout = "horizontal" if beside else "vertical"
        main.width = self._first_width if two and beside else "100%"
        other.width = "1fr" if beside else "100%"
