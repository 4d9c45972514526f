"""The messages of the main screen about pressed keys. They replace the line of keys for some seconds."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from textual.screen import Screen
from textual.timer import Timer

from stalltop.tui.main.arrangement import Arrangement
from stalltop.widgets.footer import KeyLine

SAID_SECONDS = 2.0
"""Seconds that a message stays."""


@runtime_checkable
class Says(Protocol):
    """A page that shows messages itself."""

    def say(self, text: str) -> None:
        """Show ``text`` on the page."""


class Speech:
    """Shows messages on ``screen``, each for some seconds."""

    def __init__(self, screen: Screen[None], arrangement: Arrangement) -> None:
        self._screen = screen
        self._arrangement = arrangement
        self._timer: Timer | None = None
        self.count = 0
        """Number of messages so far. If it is larger than before, another message has replaced the earlier
        one."""

    def say(self, text: str, role: str = "good", seconds: float | None = None) -> None:
        """Show ``text`` on this screen and on the page that covers it."""
        self.say_above(text)
        self.count += 1
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._screen.set_timer(SAID_SECONDS if seconds is None else seconds, self.hush)
        self._show(text, role)

    def say_above(self, text: str) -> None:
        """Show ``text`` only on a page that covers this screen."""
        shown: object = self._screen.app.screen
        if shown is not self._screen and isinstance(shown, Says):
            shown.say(text)

    def hush(self) -> None:
        """Remove the message and show the keys again."""
        self._show("", "good")

    def _show(self, text: str, role: str) -> None:
        if self._screen.is_mounted and self._screen.query("#keys"):
            self._screen.query_one("#keys", KeyLine).say(text, role)
            self._arrangement.show_keys()
            self._arrangement.fit()
