"""Screens of one table that follow the window of the main screen while they are open."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from stalltop.model.window import Window
from stalltop.tui.keys.actions import own_bindings
from stalltop.tui.pages.live import LiveScreen
from stalltop.tui.saving.copying import line_text
from stalltop.widgets.table import Table
from stalltop.widgets.table_data import TableData


class TableScreen(LiveScreen):
    """One table that fills the screen. The user can save the table, copy its rows, and go to other
    moments."""

    BINDINGS = own_bindings(copy_row="copy_row")

    def __init__(self, table: Table) -> None:
        super().__init__()
        self.table = table

    @abstractmethod
    def data(self, window: Window) -> TableData:
        """Return what to show of ``window``."""

    def content(self) -> Table:
        """Return the table, which fills the screen."""
        return self.table

    def on_mount(self) -> None:
        """Focus the table."""
        self.table.focus()

    def show_page(self) -> None:
        """Draw the current window. While a message is shown, the message replaces the title."""
        window = self.main.shown
        if window is None or not self.whole:
            return
        self._drawn_of = window
        data = self.data(window)
        self.table.show(replace(data, title=((self._text, "good"),)) if self._text else data)

    def action_copy_row(self) -> None:
        """Copy the row under the cursor with the column heads."""
        data = self.table.data
        at = data.find(self.table.cursor_key)
        if at is None:
            self.say("there is no row to copy")
            return
        text = line_text(data, at)
        where = self.stalltop.copy(text)
        self.say(f"{where}: {' '.join(text.splitlines()[-1].split())}")

    def action_copy(self) -> None:
        """Copy the row under the cursor. Shortly after a file was saved, copy the path of that file
        instead."""
        if not self.main.files.copy_path():
            self.action_copy_row()
