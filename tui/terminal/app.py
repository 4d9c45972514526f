"""What the app does about its terminal: repaint, notice a slow line, leave at a signal."""

from __future__ import annotations

import asyncio

from rich.console import RenderableType
from textual.await_complete import AwaitComplete
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver

from stalltop.tui.terminal.interrupts import INTERRUPTED
from stalltop.tui.terminal.lean_driver import LeanDriver
from stalltop.tui.terminal.textual_internals import QuietApp, queued_writes, resume_after_suspend_only
from stalltop.widgets.lines import Lines

QUEUED_WRITES = 3
"""Writes that may wait for the terminal before pictures are left out: about one picture."""
RESIZED_SECONDS = 1.0
"""How long everything is painted after a change of the terminal's size: until what was under way is over."""


class TerminalApp(QuietApp):
    """An app on a terminal that may be slow, be resized, be written on by others, or go away."""

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self.interrupted = False
        """A signal, or Ctrl-C, ended it."""
        self._loop_of_screen: asyncio.AbstractEventLoop | None = None

    def get_driver_class(self) -> type[Driver]:
        """Ours where Textual would write to a terminal itself."""
        chosen = super().get_driver_class()
        return LeanDriver if chosen is LinuxDriver else chosen

    def watch_terminal(self) -> None:
        """Begin: the screen is there."""
        self._loop_of_screen = loop = asyncio.get_running_loop()
        if self.driver is not None:
            resume_after_suspend_only(self.driver, loop, lambda: self.interrupted, self.action_repaint)
        self.app_resume_signal.subscribe(self, lambda _: self.action_repaint())

    @property
    def line_is_behind(self) -> bool:
        """Whether the terminal takes less than is written: no picture is drawn then, and keys are heard."""
        return queued_writes(self.driver) > QUEUED_WRITES

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Leave."""
        self.leaving = True
        super().exit(result, return_code, message)

    def interrupt(self) -> None:
        """Leave because of a signal; may be called from any thread."""
        self.interrupted = True
        loop = self._loop_of_screen
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(lambda: self.exit(return_code=INTERRUPTED))

    def action_interrupt(self) -> None:
        """Ctrl-C."""
        self.interrupted = True
        self.exit(return_code=INTERRUPTED)

    def pop_screen(self) -> AwaitComplete:
        """Close the screen on top. One that is being closed still handles keys that wait for it: a second Esc
        closes what lies below, and on the main screen nothing."""
        return super().pop_screen() if len(self.screen_stack) > 1 else AwaitComplete()

    def action_repaint(self) -> None:
        """Paint every cell again: another program may have written on the terminal."""
        self._forget_terminal()
        for widget in self.screen.query(Lines):
            widget.repaint()
        self.screen.refresh(layout=True)

    def on_resize(self) -> None:
        """What is left on a terminal whose size changes differs: paint everything for a while."""
        self._forget_terminal(RESIZED_SECONDS)

    def _forget_terminal(self, seconds: float = 0.0) -> None:
        if isinstance(self.driver, LeanDriver):
            self.driver.forget(seconds)
