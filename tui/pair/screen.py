"""The screen that shows two rows side by side."""

from __future__ import annotations

from textual import on
from textual.binding import Binding

from stalltop.model.window import Window
from stalltop.tui.columns.catalogue import PAIR_SORTS
from stalltop.tui.keys.actions import bindings, own_bindings
from stalltop.tui.pages.table_screen import TableScreen
from stalltop.tui.pair.table import pair_table
from stalltop.tui.tables.picking import Pair
from stalltop.widgets.table import Table
from stalltop.widgets.table_data import TableData


class PairTable(Table, can_focus=True):
    """A table with those keys of tables that are useful here."""

    BINDINGS = bindings("table", "move", "page", "end", "sideways")


class CompareScreen(TableScreen):
    """Compares two rows of the window that the main screen shows."""

    BINDINGS = [
        *own_bindings(sort="sort(1)", sort_back="sort(-1)", reverse="reverse"),
        Binding("v", "close", show=False),
    ]

    def __init__(self, pair: Pair) -> None:
        super().__init__(PairTable("pair"))
        self._pair = pair
        self._sort, self._descending = "more", True

    def data(self, window: Window) -> TableData:
        """Return the comparison in ``window``."""
        return pair_table(
            window,
            self._pair,
            sort=self._sort,
            descending=self._descending,
            width=self.app.size.width,
            glyphs=self.stalltop.glyphs,
            letters=self.stalltop.letters,
        )

    # ---- keys

    def action_sort(self, step: int) -> None:
        """Sort by the next (1) or previous (-1) column."""
        self._sort_by(PAIR_SORTS[(PAIR_SORTS.index(self._sort) + step) % len(PAIR_SORTS)])

    def action_reverse(self) -> None:
        """Reverse the order of the rows."""
        self._descending = not self._descending
        self.show_page()

    @on(Table.HeadClicked)
    def _head_clicked(self, message: Table.HeadClicked) -> None:
        if message.column == self._sort:
            self.action_reverse()
        elif message.column in PAIR_SORTS:
            self._sort_by(message.column)

    def _sort_by(self, column: str) -> None:
        self._sort, self._descending = column, column != "name"
        self.show_page()
