"""The screen with the help."""

from __future__ import annotations

from textual import events
from textual.binding import Binding

from stalltop.tui.main.layout import LEAST_HEIGHT
from stalltop.tui.pages.help import DETAILS, help_page
from stalltop.tui.pages.in_columns import in_columns, rows_of, shape
from stalltop.tui.pages.page_screen import PageScreen
from stalltop.widgets.page import Page


class HelpScreen(PageScreen):
    """Lists all keys and explains the figures."""

    TITLE_TEXT = "Help"
    BINDINGS = [Binding("escape,q,question_mark", "close", show=False)]

    def __init__(self, of: str = "") -> None:
        """``of`` is the class name of the screen on which the user asked for help."""
        super().__init__()
        self._of = of

    def on_resize(self, event: events.Resize) -> None:
        """Show the text in as many columns as the terminal has room for, with as much detail as fits on one
        screen."""
        super().on_resize(event)
        header = event.size.height >= LEAST_HEIGHT
        # The page takes one row for its title, and a cell on either side.
        width, height = event.size.width - 2, event.size.height - 1 - header
        cells = shape(width)[1]
        for detail in DETAILS:
            lines = in_columns(help_page(self._of, detail, cells), width, height)
            if rows_of(lines, width) <= height:
                break
        self.query_one("#page", Page).show(lines)
