"""The base class of screens that cover the main screen."""

from __future__ import annotations

from typing import cast

from textual import events
from textual.app import ComposeResult

from stalltop.tui.keys.actions import bindings
from stalltop.tui.main.layout import LEAST_HEIGHT
from stalltop.tui.main_keys.screen import MainScreen
from stalltop.tui.screens.bases import AppScreen
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.header import Header
from stalltop.widgets.page import Page

HEADER_SECONDS = 0.5
"""Seconds between two drawings of the first line."""


class KeyedPage(Page, can_focus=True):
    """A page with the key bindings of tables."""

    BINDINGS = bindings("table", "move", "page", "end")


class PageScreen(AppScreen):
    """A page that covers the main screen. Esc, q, and the key that opened the page, close it."""

    ALLOW_SELECT = False
    TITLE_TEXT = ""

    @property
    def main(self) -> MainScreen:
        """Return the main screen, which all others cover."""
        return cast("MainScreen", self.app.screen_stack[0])

    @property
    def whole(self) -> bool:
        """Return whether all widgets exist. They do not while the screen is being built or removed. At the
        event Mount they do, and the first frame must contain their text."""
        return self.display and bool(self.query("#page"))

    def compose(self) -> ComposeResult:
        """Yield the first line of the main screen, and the content of this screen."""
        yield Header("header")
        yield self.content()

    def content(self) -> Lines:
        """Return the widget below the first line; called once."""
        return KeyedPage(self.TITLE_TEXT, "Esc closes", "page")

    def on_mount(self) -> None:
        """Draw the first line now, and repeatedly."""
        self.show_header()
        self.set_interval(HEADER_SECONDS, self.show_header)

    def on_resize(self, event: events.Resize) -> None:
        """Hide the first line on a small terminal."""
        self.query_one("#header").display = event.size.height >= LEAST_HEIGHT

    def show_header(self) -> None:
        """Draw the first line of the main screen."""
        # Draw the line also before the screen is mounted, because the first frame must contain it.
        there = self.display and bool(self.query("#header"))
        if there and self.app.screen is self and not self.stalltop.line_is_behind:
            self.query_one("#header", Header).show(self.main.drawing.header_now())

    def action_close(self) -> None:
        """Return to the screen below."""
        self.dismiss()

    def action_save(self) -> None:
        """Save what is shown. A saved picture shows this page."""
        self.main.files.save()

    def say(self, text: str) -> None:
        """Show a message about a key, if the page has a line for messages."""

    def to_main(self) -> None:
        """Close all pages, back to the main screen."""
        while self.app.screen is not self.main:
            self.app.pop_screen()
