"""The page with all warnings and the coverage."""

from __future__ import annotations

from textual.binding import Binding

from stalltop.tui.chain.warnings_page import warnings_page
from stalltop.tui.pages.live import LiveScreen
from stalltop.tui.pages.sections import plain
from stalltop.widgets.page import Page


class WarningsScreen(LiveScreen):
    """Shows all warnings and the coverage of the window that the main screen shows."""

    TITLE_TEXT = "Coverage"
    BINDINGS = [Binding("a", "close", show=False)]

    def show_page(self) -> None:
        """Draw the warnings and the coverage of the window that the main screen shows."""
        if not self.whole:
            return
        window = self._drawn_of = self.main.shown
        text = warnings_page(window, self.main.drawing.notes, self.stalltop.glyphs)
        self._plain = plain(text)
        self.query_one("#page", Page).show(text, title=self.TITLE_TEXT, said=self._text)
