"""Everything that touches Textual's internals: what an upgrade of Textual may break is here.

``tests/tui/test_textual_internals.py`` names, for each, the test that fails when it no longer works.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any

from textual._parser import Peek1, Read1, TokenCallback
from textual._xterm_parser import BRACKETED_PASTE_END as BRACKETED_PASTE_END
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.drivers.web_driver import WebDriver
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip


class Parser(XTermParser):
    """Leaves out sequences that no terminal sends; what follows them counts."""

    def parse(self, token_callback: TokenCallback[Message]) -> Generator[Read1 | Peek1, str, None]:
        """Parse; begin anew behind what cannot be parsed."""
        while True:
            try:
                yield from super().parse(token_callback)
            except Exception:  # numbers that are none, characters beyond Unicode: begin anew behind them
                continue
            return


def drawn(screen: Screen[Any]) -> list[Strip]:
    """The lines of ``screen`` as they were drawn last."""
    return screen._compositor.render_strips()


def queued_writes(driver: Driver | None) -> int:
    """Writes that wait for the terminal; Textual's queue takes 30, then keys wait for all of them."""
    writer = getattr(driver, "_writer_thread", None)
    queue = getattr(writer, "_queue", None)
    return 0 if queue is None else int(queue.qsize())


def resume_after_suspend_only(
    driver: Driver, loop: asyncio.AbstractEventLoop, ended: Callable[[], bool], repaint: Callable[[], object]
) -> None:
    """Resume after Ctrl-Z only; after any other SIGCONT ``repaint``, unless the screen has ``ended``.

    Textual takes every SIGCONT for the end of a Ctrl-Z and starts its threads again. The kernel sends one
    after SIGHUP too; a second thread that reads a dead terminal would then never end.
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
    """Textual's driver for terminals, which stops well with all of its job."""

    @property
    def app_and_loop(self) -> tuple[App[Any], asyncio.AbstractEventLoop]:
        """The app that this driver draws for, and the loop that it runs in."""
        return self._app, self._loop

    def _sigtstp_application(self, *_: object) -> None:
        """Leave the terminal as it was, then stop with all that stands between the shell and this program.

        A shell waits for the process that it started, which may be ``timeout``, ``flock`` or a script: while
        that one runs the terminal stays with the job. The others stop after the terminal is restored, as the
        shell takes it over at once.
        """
        if self._auto_restart:
            self.suspend_application_mode()
            self._must_signal_resume = True
        before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        os.kill(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)
        os.kill(os.getpid(), signal.SIGSTOP)


class PipeDriver(WebDriver):
    """Textual's driver for the web, with what it keeps to itself."""

    @property
    def app_and_loop(self) -> tuple[App[Any], asyncio.AbstractEventLoop]:
        """The app that this driver draws for, and the loop that it runs in."""
        return self._app, self._loop

    def handle_meta(self, kind: str, content: bytes) -> None:
        """Do what a packet asks for that is no key, such as another size."""
        self._on_meta(kind, content)


class QuietApp(App[None]):
    """An app whose faults end it without Textual's page of source code and values of variables."""

    leaving = False
    """It was asked to end."""
    failure: BaseException | None = None
    """What ended it."""
    failed_itself = False
    """The failure is one of the screen, not of what it reads."""

    @property
    def driver(self) -> Driver | None:
        """What draws; None before there is a screen."""
        return self._driver

    def _handle_exception(self, error: Exception) -> None:
        if self.leaving:  # parts of the screen miss each other while it is taken apart, or was not yet whole
            self._close_messages_no_wait()
            return
        if self.failure is None:
            self.failure, self.failed_itself = error, True
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()
