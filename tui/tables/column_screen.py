"""The screen on which the user chooses the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Label

from stalltop.model.rows.dimensions import Dimension
from stalltop.tui.columns.catalogue import BY_ID, WITHOUT, Need
from stalltop.tui.columns.chooser import chooser, listed, moved, possible, toggled
from stalltop.tui.keys.actions import bindings
from stalltop.tui.screens.bases import AppScreen
from stalltop.tui.views.view import PLURAL
from stalltop.widgets.table import Table


class ColumnList(Table, can_focus=True):
    """The list of columns, with the keys of tables."""

    BINDINGS = bindings("table", "move", "page", "end", "choose")


class ColumnScreen(AppScreen):
    """Shows all columns of a table. Each change takes effect at once."""

    ALLOW_SELECT = False
    BINDINGS = [
        Binding("escape,q,C", "close", show=False),
        Binding("space", "switch", show=False),
        Binding("less_than_sign,K", "shift(-1)", show=False),
        Binding("greater_than_sign,J", "shift(1)", show=False),
        Binding("u", "usual", show=False),
    ]

    def __init__(
        self,
        by: Dimension,
        chosen: Sequence[str],
        usual: Sequence[str],
        tell: Callable[[tuple[str, ...]], None],
        have: Collection[Need] = tuple(WITHOUT),
    ) -> None:
        """The columns are those of a table grouped ``by``; ``have`` lists the needs of columns that the data
        meets. ``tell`` is called after each change with the ids of the chosen columns, or with none if the
        chosen columns are the ``usual`` ones."""
        super().__init__()
        self._by: Dimension = by
        self._usual = tuple(usual)
        self._chosen = tuple(chosen) or self._usual
        self._order = listed(self._chosen, possible(by))
        self._tell = tell
        self._have = have

    @property
    def list(self) -> ColumnList:
        """Return the list of columns on this screen."""
        return self.query_one("#columns", ColumnList)

    def compose(self) -> ComposeResult:
        """Yield the list, and the whole description of the column under the cursor."""
        yield ColumnList("columns")
        yield Label(id="about", markup=False)

    def on_mount(self) -> None:
        """Show the list."""
        self.list.focus()
        self._show()

    def on_resize(self, event: events.Resize) -> None:
        """Draw the list for the new size."""
        self.call_after_refresh(self._show)

    @on(Table.Moved)
    def _say_about(self, said: object = None) -> None:
        """Show the whole description of the column under the cursor: the list may cut it."""
        hidden = "" if self._here in self._chosen else "  (hidden: Space shows it, as the last one)"
        about = BY_ID[self._here].help if self._here in BY_ID else ""
        need = BY_ID[self._here].needs if self._here in BY_ID else ""
        if need in WITHOUT and need not in self._have:
            about = f"{WITHOUT[need]}  ({about})"
        self.query_one("#about", Label).update(f"{about}{hidden}" if about else "")

    def _show(self) -> None:
        self.list.show(
            chooser(
                PLURAL[self._by],
                self._chosen,
                self._order,
                width=self.app.size.width,
                glyphs=self.stalltop.glyphs,
            )
        )
        self._say_about()

    @property
    def _here(self) -> str:
        """Return the id of the column under the cursor."""
        return str(self.list.cursor_key)

    def _choose(self, chosen: tuple[str, ...]) -> None:
        if not chosen:
            return  # a table needs one column besides the name
        self._chosen = chosen
        self._tell(() if chosen == self._usual else chosen)
        self._show()

    # ---- keys

    def action_switch(self) -> None:
        """Show or hide the column under the cursor.

        A column that is shown again comes last. A hidden column keeps its place in the list, so the same key
        shows it again.
        """
        self._choose(toggled(self._chosen, self._here))

    def action_shift(self, step: int) -> None:
        """Move the column under the cursor to the left (-1) or right (1)."""
        here = self._here
        chosen = moved(self._chosen, here, step)
        if chosen != self._chosen:
            self._order = listed(chosen, self._order)
            self._choose(chosen)
            self.list.put_cursor(here)

    def action_usual(self) -> None:
        """Restore the usual columns."""
        self._order = listed(self._usual, possible(self._by))
        self._choose(self._usual)

    @on(Table.RowChosen)
    def action_close(self) -> None:
        """Return to the main screen."""
        self.dismiss()
