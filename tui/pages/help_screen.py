"""The screen with the help."""

from __future__ import annotations

from textual.binding import Binding

from stalltop.tui.pages.help import help_page
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

    def on_mount(self) -> None:
        """Show the text."""
        self.query_one("#page", Page).show(help_page(self._of))
