"""Screens of text that lie on the main one: what they share, and the help."""

from __future__ import annotations

from typing import cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding

from stalltop.tui.keys import bindings
from stalltop.tui.main.layout import LEAST_HEIGHT
from stalltop.tui.main.screen import MainScreen
from stalltop.tui.pages.texts import help_page
from stalltop.tui.screen_app import AppScreen
from stalltop.widgets.header import Header
from stalltop.widgets.lines import Lines
from stalltop.widgets.page import Page

HEADER_SECONDS = 0.5
"""How often the first line is drawn anew; only what differs is sent."""


class KeyedPage(Page, can_focus=True):
    """A page with the keys of the tables."""

    BINDINGS = bindings("table", "move", "page", "end")


class PageScreen(AppScreen):
    """One page; Esc, q and the key that opened it close it."""

    ALLOW_SELECT = False
    TITLE_TEXT = ""

    @property
    def main(self) -> MainScreen:
        """The main screen, which all others lie on."""
        return cast("MainScreen", self.app.screen_stack[0])

    @property
    def whole(self) -> bool:
        """Whether all of it is there to be drawn, as ``Drawing.whole``."""
        return self.is_mounted and self.display

    def compose(self) -> ComposeResult:
        """The first line of the main screen, and what this one shows."""
        yield Header("header", unicode=self.stalltop.unicode)
        yield self.content()

    def content(self) -> Lines:
        """What fills the rest of the screen, made once."""
        return KeyedPage(self.TITLE_TEXT, "Esc closes", "page", unicode=self.stalltop.unicode)

    def on_mount(self) -> None:
        """The first line is that of now, from now on."""
        self.show_header()
        self.set_interval(HEADER_SECONDS, self.show_header)

    def on_resize(self, event: events.Resize) -> None:
        """A small terminal has no room for the first line."""
        self.query_one("#header").display = event.size.height >= LEAST_HEIGHT

    def show_header(self) -> None:
        """Say where, when and how much is wrong, as on the main screen."""
        # Also while it is being mounted: the first picture has the line, too.
        there = self.display and bool(self.query("#header"))
        if there and self.app.screen is self and not self.stalltop.line_is_behind:
            self.query_one("#header", Header).show(self.main.drawing.header_now())

    def action_close(self) -> None:
        """Back to what it lies on."""
        self.dismiss()

    def action_save(self) -> None:
        """Save what is shown: the picture is of this page."""
        self.main.files.save()

    def say(self, text: str) -> None:
        """Say what a key has done, where there is a line for that."""

    def to_main(self) -> None:
        """Back to the main screen, whatever lies on it."""
        while self.app.screen is not self.main:
            self.app.pop_screen()


class HelpScreen(PageScreen):
    """All keys and what the figures mean."""

    TITLE_TEXT = "Help"
    BINDINGS = [Binding("escape,q,question_mark", "close", show=False)]

    def __init__(self, of: str = "") -> None:
        """``of``: the name of the screen's class that it is asked on."""
        super().__init__()
        self._of = of

    def on_mount(self) -> None:
        """Show the text."""
        self.query_one("#page", Page).show(help_page(self._of))
