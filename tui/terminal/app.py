"""How the app handles its terminal: it repaints, notices a slow connection, and ends at a signal."""

from __future__ import annotations

import asyncio

from rich.console import RenderableType
from textual import events, on
from textual.await_complete import AwaitComplete
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.timer import Timer

from stalltop.tui.terminal.interrupts import INTERRUPTED
from stalltop.tui.terminal.key_order import KeyHandled, KeyOrder
from stalltop.tui.terminal.lean_driver import LeanDriver
from stalltop.tui.terminal.textual_internals import QuietApp, queued_writes, resume_after_suspend_only
from stalltop.widgets.drawing.lines import Lines

QUEUED_WRITES = 3
"""The number of writes waiting for the terminal above which frames are skipped: about as many writes as one
frame takes."""
RESIZED_SECONDS = 1.0
"""For this many seconds after a resize, all cells are sent, changed or not: output from before the resize may
still arrive."""
SETTLED_SECONDS = 4.0
"""This many seconds after the last resize, all cells are sent once more: on a busy host, output from before
the resize may arrive that late."""


class TerminalApp(QuietApp):
    """An app whose terminal may be slow, be resized, be written to by others, or go away."""

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self.interrupted = False
        """Whether a signal or Ctrl-C ended the app."""
        self._loop_of_screen: asyncio.AbstractEventLoop | None = None
        self._settled: Timer | None = None
        """The timer that paints everything ``SETTLED_SECONDS`` after the last resize."""
        self._key_order = KeyOrder(self, super().on_event)

    def get_driver_class(self) -> type[Driver]:
        """Return ``LeanDriver`` if Textual would choose its driver for terminals, else the driver that
        Textual chooses."""
        chosen = super().get_driver_class()
        return LeanDriver if chosen is LinuxDriver else chosen

    def watch_terminal(self) -> None:
        """Repaint the screen when the program continues after Ctrl-Z or SIGCONT. Called as soon as the screen
        exists."""
        self._loop_of_screen = loop = asyncio.get_running_loop()
        if self.driver is not None:
            resume_after_suspend_only(self.driver, loop, lambda: self.interrupted, self.action_repaint)
        self.app_resume_signal.subscribe(self, lambda _: self.action_repaint())

    @property
    def line_is_behind(self) -> bool:
        """Return whether the terminal takes the output more slowly than the app writes it. Then no frame is
        drawn, so that keys are handled."""
        return queued_writes(self.driver) > QUEUED_WRITES

    @property
    def message_queue_size(self) -> int:
        """Return how many messages and keys wait."""
        return super().message_queue_size + len(self._key_order)

    async def on_event(self, event: events.Event) -> None:
        """Handle ``event``. A key waits until the keys before it are handled."""
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            await self._key_order.take(event)
        else:
            await super().on_event(event)
            await self._key_order.arrived(event)

    @on(KeyHandled)
    async def _key_handled(self, message: KeyHandled) -> None:
        await self._key_order.handled(message)

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """End the app."""
        self.leaving = True
        super().exit(result, return_code, message)

    def interrupt(self) -> None:
        """End the app because of a signal. Any thread may call it."""
        self.interrupted = True
        loop = self._loop_of_screen
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(lambda: self.exit(return_code=INTERRUPTED))

    def action_interrupt(self) -> None:
        """End the app because of Ctrl-C."""
        self.interrupted = True
        self.exit(return_code=INTERRUPTED)

    def pop_screen(self) -> AwaitComplete:
        """Close the top screen, unless it is the main screen. A screen that is closing still gets keys: a
        second Esc then closes the screen below, which may be the main screen."""
        return super().pop_screen() if len(self.screen_stack) > 1 else AwaitComplete()

    def action_repaint(self) -> None:
        """Paint every cell again, because another program may have written to the terminal."""
        if not self.screen_stack:
            return  # the app is ending: the timer after a resize may fire after the screens are removed
        self._forget_terminal()
        for widget in self.screen.query(Lines):
            widget.repaint()
        self.screen.refresh(layout=True)

    def on_resize(self) -> None:
        """Paint everything for a while: terminals differ in what they keep when their size changes."""
        self._forget_terminal(RESIZED_SECONDS)
        if self._settled is not None:
            self._settled.stop()
        self._settled = self.set_timer(SETTLED_SECONDS, self.action_repaint)

    def _forget_terminal(self, seconds: float = 0.0) -> None:
        if isinstance(self.driver, LeanDriver):
            self.driver.forget(seconds)
