"""The page that shows in which lines of code the threads of a container or process spend their time."""

from __future__ import annotations

from dataclasses import replace

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.widgets import Label

from stalltop.model.text import figures
from stalltop.model.window import Window
from stalltop.tui.keys.actions import bindings, key, own_bindings
from stalltop.tui.main.filter_entry import FilterEntry
from stalltop.tui.pages.table_screen import TableScreen
from stalltop.tui.stacks.table import TreeChoices, stack_table
from stalltop.tui.views.path import Path
from stalltop.widgets.table import Table
from stalltop.widgets.table_data import TableData


class StackTable(Table, can_focus=True):
    """The tree of lines, with the key bindings of tables."""

    BINDINGS = bindings("table")


class StacksScreen(TableScreen):
    """Shows a tree of lines. It can be filtered, and compared with the moment that is marked."""

    BINDINGS = [
        *own_bindings(
            filter="filter", unfold="unfold", unfold_all="unfold_all", mark="mark", compare="compare"
        ),
        Binding("F", "close", show=False),
    ]

    def __init__(self, rows: Path) -> None:
        """The page is about the processes that have rows below ``rows``; if it is empty, about all."""
        super().__init__(StackTable("list"))
        self._rows = rows
        self._choices = TreeChoices()

    def compose(self) -> ComposeResult:
        """Yield the tree and, hidden, the line in which the user types a filter."""
        yield from super().compose()
        with Horizontal(id="entry"):
            yield Label("/", id="prompt")
            yield FilterEntry("filter")

    def on_mount(self) -> None:
        """Hide the line for the filter."""
        self.query_one("#entry").display = False

    def data(self, window: Window) -> TableData:
        """Return the tree of ``window``."""
        against = self.main.moments.against
        return stack_table(
            window,
            self._rows,
            self._choices,
            against=None if against is None else against.window,
            width=self.app.size.width,
            glyphs=self.stalltop.glyphs,
            letters=self.stalltop.letters,
        )

    # ---- keys

    def action_unfold(self) -> None:
        """Show what the line under the cursor called, or hide it."""
        self._toggle(self.table.cursor_key)

    def action_unfold_all(self) -> None:
        """Unfold the whole tree, or only the lines with much time."""
        self._choose(replace(self._choices, all_unfolded=not self._choices.all_unfolded, toggled=frozenset()))

    def action_filter(self) -> None:
        """Open the line for the filter."""
        self.query_one("#entry").display = True
        entry = self.query_one(FilterEntry)
        entry.value = " ".join(self._choices.words)
        self.set_focus(entry)

    def action_mark(self) -> None:
        """Mark the moment that is shown."""
        self.main.time.mark()
        mark = self.main.moments.mark
        if mark is not None:
            self.say(f"marked {figures.clock(mark.at)}; {key('compare')} shows what changes from here on")

    def action_compare(self) -> None:
        """Show how the tree changed since the mark, or only the present times."""
        self.main.time.compare()
        self.say("" if self.main.moments.mark is not None else f"{key('mark')} marks the moment shown")

    @on(Table.RowChosen)
    def _chosen(self, message: Table.RowChosen) -> None:
        self._toggle(message.key)

    @on(FilterEntry.Changed, "#filter")
    def _typed(self, message: FilterEntry.Changed) -> None:
        if self.query_one("#entry").display:
            self._choose(replace(self._choices, words=tuple(message.value.split())))

    @on(FilterEntry.Submitted, "#filter")
    def _entered(self) -> None:
        self._end_filter()

    @on(FilterEntry.Cleared)
    def _cleared(self) -> None:
        self._choose(replace(self._choices, words=()))
        self._end_filter()

    def _end_filter(self) -> None:
        self.query_one("#entry").display = False
        self.set_focus(self.table)

    def _toggle(self, path: object) -> None:
        if isinstance(path, tuple):
            self._choose(self._choices.toggle(path))

    def _choose(self, choices: TreeChoices) -> None:
        self._choices = choices
        self.show_page()
