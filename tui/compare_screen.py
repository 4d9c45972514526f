"""The screen of two rows side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen

from model.window import Window
from tui.columns.pair import BY_ID, KINDS
from tui.compare import Pair, pair_table
from tui.keys import bindings
from widgets.table import Table

if TYPE_CHECKING:
    from tui.app import StalltopApp

SORTS = ("name", *(kind.id for kind in KINDS))


class PairTable(Table, can_focus=True):
    """A table with the keys of the others that make sense here."""

    BINDINGS = bindings("table", "move", "page", "end", "sideways")


class CompareScreen(Screen[None]):
    """Two rows of the window that the main screen shows."""

    ALLOW_SELECT = False
    BINDINGS = [
        *bindings("screen", "sort", "reverse", "freeze"),
        Binding("escape,q,v", "close", show=False),
    ]

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self._pair = pair
        self._sort, self._descending = "more", True
        self._shown: Window | None = None

    @property
    def stalltop(self) -> StalltopApp:
        """The app, by its own type."""
        return cast("StalltopApp", self.app)

    @property
    def table(self) -> PairTable:
        """The table."""
        return self.query_one("#pair", PairTable)

    def compose(self) -> ComposeResult:
        """The table fills the screen."""
        yield PairTable("pair", unicode=self.stalltop.unicode)

    def on_mount(self) -> None:
        """Show it, and again each second."""
        self.table.focus()
        self._show()
        self.set_interval(1.0, self._follow)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the new size."""
        self.call_after_refresh(self._show)

    def _follow(self) -> None:
        """Show the window of now, if it is another one."""
        if self.stalltop.main.shown is not self._shown and not self.stalltop.line_is_behind:
            self._show()

    def _show(self) -> None:
        window = self._shown = self.stalltop.main.shown
        if window is not None:
            self.table.show(
                pair_table(
                    window,
                    self._pair,
                    sort=self._sort,
                    descending=self._descending,
                    width=self.app.size.width,
                    unicode=self.stalltop.unicode,
                )
            )

    # ---- keys

    def action_sort(self, step: int) -> None:
        """Sort by the next or previous column."""
        self._sort_by(SORTS[(SORTS.index(self._sort) + step) % len(SORTS)])

    def action_reverse(self) -> None:
        """Turn the order round."""
        self._descending = not self._descending
        self._show()

    @on(Table.HeadClicked)
    def _head_clicked(self, message: Table.HeadClicked) -> None:
        if message.column == self._sort:
            self.action_reverse()
        elif message.column == "name" or message.column in BY_ID:
            self._sort_by(message.column)

    def _sort_by(self, column: str) -> None:
        self._sort, self._descending = column, column != "name"
        self._show()

    def action_freeze(self) -> None:
        """Hold the picture, or let it go."""
        self.stalltop.main.action_freeze()

    def action_close(self) -> None:
        """Back to the main screen."""
        self.dismiss()
