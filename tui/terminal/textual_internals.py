"""All code that uses internals of Textual, and that an update of Textual may break.

``tests/tui/terminal/test_textual_internals.py`` lists every private name that is used, with the class of
Textual that has it. For every name that this module defines, it also lists the file of tests that fail if
Textual changes the behaviour that the name relies on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Generator
from types import FrameType
from typing import Any

from textual import events
from textual._compositor import Compositor as Compositor
from textual._compositor import CompositorUpdate as CompositorUpdate
from textual._parser import Peek1, Read1, TokenCallback
from textual._xterm_parser import BRACKETED_PASTE_END as BRACKETED_PASTE_END
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.driver import Driver
from textual.drivers._byte_stream import ByteStream as ByteStream
from textual.drivers.linux_driver import LinuxDriver
from textual.drivers.web_driver import WebDriver
from textual.geometry import Region, Size
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from stalltop.tui.terminal.abilities import drawn_on


class Parser(XTermParser):
    """A parser that skips invalid sequences and continues after them."""

    def parse(self, token_callback: TokenCallback[Message]) -> Generator[Read1 | Peek1, str, None]:
        """Parse the input. Restart after input that cannot be parsed."""
        while True:
            try:
                yield from super().parse(token_callback)
            except Exception:  # invalid numbers, or characters beyond Unicode: restart after them
                continue
            return


def drawn(screen: Screen[Any]) -> list[Strip]:
    """Return the lines of ``screen`` as last drawn."""
    return screen._compositor.render_strips()


Patches = Callable[[Compositor, Collection[Region]], CompositorUpdate | None]
"""Returns the update that repaints the given regions; None if Textual has to compute it."""


_FRAME_SECONDS = 1 / 60
"""The least time between two paintings of a screen, as in Textual."""


class PatchCompositor(Compositor):
    """A compositor that first asks ``patches`` for the update that repaints parts of the screen."""

    patches: Patches

    def render_partial_update(self) -> Any:
        """Return the update that repaints the regions that have changed since the last one."""
        update = self.patches(self, self._dirty_regions) if self._dirty_regions else None
        if update is None:
            return super().render_partial_update()
        self._dirty_regions.clear()
        return update


class PatchedScreen(Screen[None]):
    """A screen whose widgets are repainted with few messages, and at once.

    In Textual, each widget that changed sends messages to itself and to its screen, which then waits up to
    16 ms for a timer.
    """

    def __init__(self, patches: Patches) -> None:
        """``patches`` computes the updates of the screen where it can."""
        super().__init__()
        self._compositor = PatchCompositor()
        self._compositor.patches = patches
        self._painted = 0.0
        """When the screen was painted last, as returned by time.monotonic()."""

    def repaint(self, widget: Widget, regions: Collection[Region]) -> None:
        """Paint ``regions`` of ``widget`` when all messages are handled."""
        widget._set_dirty(*regions)
        self._dirty_widgets.add(widget)
        self.check_idle()

    async def _on_idle(self, event: events.Idle) -> None:
        """Paint, unless the screen was painted just now: then Textual's timer paints."""
        if not (self._dirty_widgets and self.is_current) or self.app._batch_count:
            return
        now = time.monotonic()
        if now - self._painted >= _FRAME_SECONDS:
            event.prevent_default()  # Textual would start the timer
            self._painted = now
            self._on_timer_update()


def queued_writes(driver: Driver | None) -> int:
    """Return how many writes wait for the terminal. Textual's queue holds 30. When it is full, the app
    blocks, and keys wait until the writes are done."""
    writer = getattr(driver, "_writer_thread", None)
    queue = getattr(writer, "_queue", None)
    return 0 if queue is None else int(queue.qsize())


def resume_after_suspend_only(
    driver: Driver, loop: asyncio.AbstractEventLoop, ended: Callable[[], bool], repaint: Callable[[], object]
) -> None:
    """Resume after Ctrl-Z only. After any other SIGCONT call ``repaint``, unless the screen has ``ended``.

    Textual takes each SIGCONT for the end of a Ctrl-Z and starts its threads again. The kernel also sends a
    SIGCONT after SIGHUP; a second thread that reads a dead terminal would then never end.
    """
    resume = signal.getsignal(signal.SIGCONT)
    if not callable(resume):
        return

    def on_continue(number: int, frame: FrameType | None) -> None:
        if ended() or loop.is_closed():
            return
        if getattr(driver, "_must_signal_resume", True):
            resume(number, frame)
        else:
            loop.call_soon_threadsafe(repaint)

    signal.signal(signal.SIGCONT, on_continue)


class StoppingDriver(LinuxDriver):
    """Textual's driver for terminals. It draws on ``drawn_on()``, also if stderr is no terminal. Ctrl-Z stops
    the whole job, not this process alone."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        # Textual declares the type of sys.__stderr__, but only needs a text stream.
        self._file = drawn_on() or self._file  # type: ignore[assignment]

    @property
    def app_and_loop(self) -> tuple[App[Any], asyncio.AbstractEventLoop]:
        """Return the app that this driver draws, and its event loop."""
        return self._app, self._loop

    def start_application_mode(self) -> None:
        """Start to draw, and follow the size of the terminal.

        Textual's handler of SIGWINCH reads the size and sends it. While a window is dragged, the next signal
        interrupts the handler: the size that was read first is then sent last, and stays. Here the event
        loop reads the size.
        """
        before = signal.getsignal(signal.SIGWINCH)
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if signal.getsignal(signal.SIGWINCH) != before:
            signal.signal(signal.SIGWINCH, self._size_changed)

    def _size_changed(self, *_: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._send_size)

    def _send_size(self) -> None:
        size = Size(*self._get_terminal_size())
        self._app.post_message(events.Resize(size, size))

    def _sigtstp_application(self, *_: object) -> None:
        """Restore the terminal, then stop all processes of the job: first the others, then this one.

        A shell waits for the process that it started, such as ``timeout``, ``flock`` or a script. The shell
        gets the terminal back only when that process stops too, and then takes it over at once. So the other
        processes are stopped only after the terminal is restored.
        """
        if self._auto_restart:
            self.suspend_application_mode()
            self._must_signal_resume = True
            self._print_note()
        before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        os.kill(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)
        os.kill(os.getpid(), signal.SIGSTOP)

    def _print_note(self) -> None:
        line = self._app.suspend_note() if isinstance(self._app, QuietApp) else ""
        if line and self._file is not None:
            with contextlib.suppress(OSError, ValueError):
                self._file.write(f"stalltop: {line}\n")
                self._file.flush()


class PipeDriver(WebDriver):
    """Textual's driver for the web, with access to its private parts."""

    @property
    def app_and_loop(self) -> tuple[App[Any], asyncio.AbstractEventLoop]:
        """Return the app that this driver draws, and its event loop."""
        return self._app, self._loop

    def handle_meta(self, kind: str, content: bytes) -> None:
        """Handle a packet that is no key, such as a change of the size."""
        self._on_meta(kind, content)


class QuietApp(App[None]):
    """An app that does not print Textual's page with source code and values of variables when it fails."""

    leaving = False
    """Whether the app was asked to end."""
    failure: BaseException | None = None
    """The error that ended the app."""

    def suspend_note(self) -> str:
        """Return a line to print when Ctrl-Z stops the app; '' for none."""
        return ""

    def remember_copied(self, text: str) -> None:
        """Let a paste in a line of text insert ``text``, without asking the terminal for its clipboard."""
        if self._clipboard != text:
            self._clipboard = text

    failed_itself = False
    """Whether the screen itself failed, and not its source of data."""

    @property
    def driver(self) -> Driver | None:
        """Return the driver; None before the screen is started."""
        return self._driver

    def _handle_exception(self, error: Exception) -> None:
        if self.leaving:  # while the screen is built or removed, its parts may not find each other
            self._close_messages_no_wait()
            return
        if self.failure is None:
            self.failure, self.failed_itself = error, True
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()
