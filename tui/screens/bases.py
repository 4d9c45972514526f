"""The base classes of all screens."""

from __future__ import annotations

from typing import cast

from textual.await_complete import AwaitComplete
from textual.screen import Screen, ScreenResultType

from stalltop.tui.screens.screen_app import ScreenApp
from stalltop.tui.terminal.patches import Patcher
from stalltop.tui.terminal.textual_internals import PatchedScreen


class TopScreen(Screen[ScreenResultType]):
    """A screen that closes only while it is the topmost one of the app.

    Keys that arrive quickly can reach a screen that is closed already, or that another one covers. Textual
    would then close the screen on top instead, or fail.
    """

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close the screen with ``result``. Does nothing if it is not on top."""
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()


class AppScreen(PatchedScreen, TopScreen[None]):
    """A screen of this app."""

    def __init__(self) -> None:
        super().__init__(Patcher().patches)

    @property
    def stalltop(self) -> ScreenApp:
        """Return the app as a ``ScreenApp``."""
        return cast("ScreenApp", self.app)
