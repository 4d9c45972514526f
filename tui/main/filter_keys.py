"""The key that opens the line for a filter, and what is typed there."""

from __future__ import annotations

from dataclasses import replace

from stalltop.tui.filter_entry import FilterEntry
from stalltop.tui.main.view import MainView


class FilterKeys:
    """The filter of the tables on ``main``: they follow every letter."""

    def __init__(self, main: MainView) -> None:
        self._main = main

    def open(self) -> None:
        """Show the line, with the filter of now in it."""
        entry = self._main.query_one("#filter", FilterEntry)
        entry.value = self._main.tables.looks.first.filter
        self._main.arrangement.show_filter(True)
        # Now, not with the next message: what follows at once, as in a paste, is text and no command.
        self._main.set_focus(entry)

    def changed(self, text: str) -> None:
        """Filter by what is typed so far."""
        if self._main.query_one("#filter").display:
            self._put(text.strip())

    def clear(self) -> None:
        """No filter, and no line for it."""
        self._put("")
        self.close()

    def close(self) -> None:
        """Keep the filter; the keys go back to the tables."""
        self._main.arrangement.show_filter(False)
        self._main.set_focus(self._main.tables.main)
        self._main.tables.redraw()

    def _put(self, text: str) -> None:
        tables = self._main.tables
        tables.looks.first = replace(tables.looks.first, filter=text)
        tables.redraw()
