"""The keys of the main screen for the program itself: theme, slow connections, quitting."""

from __future__ import annotations

from stalltop.tui.keys.actions import key
from stalltop.tui.main.view import MainView
from stalltop.tui.terminal.slow_line import LOW_SECONDS


class ProgramKeys:
    """Changes how ``main`` is drawn, and quits."""

    def __init__(self, main: MainView) -> None:
        self._main = main
        self._say = main.speech.say

    def theme(self) -> None:
        """Use the next theme."""
        if not self._without_colours():
            self._say(f"colours: {self._main.stalltop.colours.next()}", "label")

    def choose_theme(self, name: str) -> None:
        """Use the theme ``name``."""
        if not self._without_colours():
            self._main.stalltop.colours.choose(name)
            self._say(f"colours: {name}", "label")

    def _without_colours(self) -> bool:
        if self._main.app.no_color:
            self._say("NO_COLOR is set: there are no other colours to change to", "warn")
        return self._main.app.no_color

    def draw_less(self) -> None:
        """Switch to drawing less, for slow connections, or back to drawing everything."""
        app = self._main.stalltop
        low = app.slow_line.low = not app.slow_line.low
        app.colours.few(low)
        self._main.drawing.everything()
        if low:
            usual = key("less")
            self._say(
                f"low bandwidth: a frame every {LOW_SECONDS:.0f}s, no bars, 16 colours; {usual}: all",
                "label",
            )
        else:
            self._say("everything is drawn again", "label")

    def leave(self) -> None:
        """End the app."""
        self._main.stalltop.exit()
