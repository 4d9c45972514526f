"""Divides the room of a panel among one to three tables."""

from __future__ import annotations

from textual.containers import Vertical

from stalltop.tui.keys.actions import bindings
from stalltop.tui.tables.sizes import OTHER_LINES, first_cells, heights, in_steps, third_below
from stalltop.widgets.table import HEAD_LINES, Table


class GroupTable(Table, can_focus=True):
    """A table of groups with the key bindings of ``tui.keys.actions``."""

    BINDINGS = bindings("table")


class TableRoom:
    """Places the second table of ``panel`` below the first or beside it, and the third one below the shorter
    of two side by side."""

    def __init__(self, panel: Vertical, first: GroupTable, second: GroupTable, third: GroupTable) -> None:
        self._panel = panel
        self._first, self._second, self._third = first, second, third
        self.beside = False
        """Whether two tables stand side by side, not one above the other."""
        self.share = 50
        """Percent of the room that the first of two tables may take."""
        self.gives = True
        """Whether the first table gives some of its width to the second."""
        self._lines = (0, 0)
        """The most lines that the first and the second table needed since their content was chosen."""
        self._placed: tuple[object, ...] = ()
        """The current placement, to change styles only when it differs."""

    def forget_lines(self) -> None:
        """Forget how many lines the tables needed, because they now show something else."""
        self._lines = (0, 0)

    def cells_of(self, widget: Table) -> int:
        """Return the width of a table in cells."""
        width = self._panel.app.size.width
        if not (self.beside and self._second.display):
            return width
        left = widget is self._first or (widget is self._third and self._below() == "first")
        return self._first_width if left else width - self._first_width

    @property
    def _first_width(self) -> int:
        """Return the width of the first table beside a second one."""
        return first_cells(self._panel.app.size.width, self.share, gives=self.gives)

    def _below(self) -> str:
        """Return which of two tables side by side leaves room for a third one below it; empty if none
        does."""
        if not (self.beside and self._second.display):
            return ""
        return third_below(self._panel.size.height or self._panel.app.size.height - OTHER_LINES, *self._lines)

    def divide(self, *, third: bool) -> None:
        """Divide the room. A table gets the lines that another one does not need; with ``third``, a third
        table may get them.

        While the tables show the same thing they only grow, by several lines at once, so that borders seldom
        move.
        """
        needed = (len(widget.data.rows) + HEAD_LINES for widget in (self._first, self._second))
        first, second = map(max, self._lines, needed)
        self._lines = (first, second)
        below = self._below() if third else ""
        two, beside = self._second.display, self.beside
        found: tuple[str, str] = ("1fr", "1fr")
        if two and not beside:
            found = heights(self._panel.app.size.height, self.share, first, second)
        lines = in_steps(first if below == "first" else second)
        placed = (two, beside, below, found, lines if below else 0, self._first_width)
        if placed == self._placed:
            return
        self._placed = placed
        self._third.display = bool(below)
        panel, main, other = self._panel.styles, self._first.styles, self._second.styles
        main.row_span = 2 if below == "second" else 1
        other.row_span = 2 if below == "first" else 1
        main.height, other.height = found
        if below:
            panel.layout = "grid"
            panel.grid_size_columns = panel.grid_size_rows = 2
            panel.grid_columns = f"{self._first_width} 1fr"
            panel.grid_rows = f"{lines} 1fr"
            main.width = other.width = main.height = other.height = "100%"
            return
        panel.layout = "horizontal" if beside else "vertical"
        main.width = self._first_width if two and beside else "100%"
        other.width = "1fr" if beside else "100%"
