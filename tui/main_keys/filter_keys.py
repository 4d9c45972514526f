"""The key that opens the line for a filter, and the editing of that filter."""

from __future__ import annotations

from dataclasses import replace

from stalltop.tui.main.filter_entry import FilterEntry
from stalltop.tui.main.view import MainView


class FilterKeys:
    """Edits the filter of the tables on ``main``. The tables are filtered again after each typed letter."""

    def __init__(self, main: MainView) -> None:
        self._main = main

    def open(self) -> None:
        """Show the line with the current filter in it."""
        entry = self._main.query_one("#filter", FilterEntry)
        entry.value = self._main.tables.views.first.filter
        self._main.arrangement.show_filter(True)
        # Set the focus now, not in the next message: keys that follow at once, as in a paste, belong to the
        # filter.
        self._main.set_focus(entry)

    def changed(self, text: str) -> None:
        """Apply the text typed so far."""
        if self._main.query_one("#filter").display:
            self._put(text.strip())

    def clear(self) -> None:
        """Remove the filter and hide the line."""
        self._put("")
        self.close()

    def close(self) -> None:
        """Keep the filter, hide the line, and focus the tables."""
        self._main.arrangement.show_filter(False)
        self._main.set_focus(self._main.tables.main)
        self._main.tables.redraw()

    def _put(self, text: str) -> None:
        tables = self._main.tables
        tables.views.first = replace(tables.views.first, filter=text)
        tables.redraw()
