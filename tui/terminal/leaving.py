"""Leaving in good order, whatever happens: signals, a lost terminal, a screen that is stuck.

A request to leave is passed to the app. If it has not ended shortly after - its output is blocked by a dead
line, say - the terminal is put right from here and the process ends; probes end with their process.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from stalltop.tui.terminal.interrupts import INTERRUPTED, REQUESTS

GRACE_SECONDS = 0.7
"""Time that the app has to end after a request."""
RESTORE_SECONDS = 0.5
"""Time that a terminal which takes nothing is tried to be put right."""
RESTORE = (
    "\x18\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?2048l\x1b[?1004l\x1b[<u"
    "\x1b[?1049l\x1b[?25h\x1b[0m"
)
"""Ends what was half written, then turns off: bracketed paste, no wrapping, mouse and its encodings, resize
and focus reports, the keyboard protocol, the alternate screen; shows the cursor."""


class Leaving:
    """While entered, signals and a lost terminal end the app by ``leave``, called from a thread of its own.

    A signal's handler only writes a byte: it may come while the main thread holds any lock.
    """

    def __init__(self, leave: Callable[[], None], last_steps: Callable[[], object] = lambda: None) -> None:
        self._leave = leave
        self._last_steps = last_steps
        self._done = threading.Event()
        self._screen_ended = threading.Event()
        self._bell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._before: dict[int, Any] = {}
        self._attributes: list[Any] | None = None
        self._descriptor = _descriptor()
        self._thread = threading.Thread(target=self._watch, name="stalltop-leaving", daemon=True)

    def __enter__(self) -> Self:
        if self._descriptor is not None:
            try:
                self._attributes = termios.tcgetattr(self._descriptor)
            except termios.error:
                self._descriptor = None
        for number in REQUESTS:
            # What was ignored from the start (nohup) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._screen_ended.set()
        self._ring()
        self._thread.join()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for end in self._bell:
            os.close(end)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._ring()

    def _ring(self) -> None:
        # A full pipe has enough bytes in it to wake the thread.
        with contextlib.suppress(BlockingIOError):
            os.write(self._bell[1], b"!")

    def _watch(self) -> None:
        """Wait for a signal or for the terminal to go: with SIGHUP ignored nothing else would tell that."""
        poll = select.poll()
        poll.register(self._bell[0], select.POLLIN)
        if self._descriptor is not None:
            poll.register(self._descriptor, 0)  # errors and hang-ups are reported unasked
        poll.poll()
        if self._done.is_set():
            return
        self._leave()
        if not self._screen_ended.wait(GRACE_SECONDS):
            self._restore()
            self._last_steps()
            os._exit(INTERRUPTED)

    def screen_ended(self) -> None:
        """The app has ended and given the terminal back; what is left to do bounds its own time."""
        self._screen_ended.set()

    def lost(self) -> bool:
        """Whether the terminal is gone."""
        if self._descriptor is None:
            return False
        poll = select.poll()
        poll.register(self._descriptor, 0)  # errors and hang-ups are reported unasked
        return any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))

    def _restore(self) -> None:
        """Put the terminal right, waiting for it no longer than ``RESTORE_SECONDS``."""
        if self._descriptor is None:
            return
        try:
            # A description of our own: O_NONBLOCK on the shared one would stay for the shell.
            own = os.open(
                os.ttyname(self._descriptor), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            )
            # Textual's writing thread may sit in a write, with the terminal locked. A signal interrupts that,
            # and what is left to write goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), self._descriptor)
            for thread in threading.enumerate():
                if thread.name == "textual-output" and thread.ident is not None:
                    signal.pthread_kill(thread.ident, REQUESTS[0])
            if self._attributes is not None:
                termios.tcsetattr(own, termios.TCSANOW, self._attributes)
            end = time.monotonic() + RESTORE_SECONDS
            while time.monotonic() < end:
                termios.tcflush(own, termios.TCOFLUSH)
                try:
                    os.write(own, RESTORE.encode())
                    return
                except BlockingIOError:
                    time.sleep(0.01)
        except (OSError, termios.error):
            pass  # the terminal is gone


def _descriptor() -> int | None:
    """The terminal that the screen is drawn on, if it is one."""
    try:
        number = sys.__stderr__.fileno() if sys.__stderr__ is not None else -1
    except (OSError, ValueError):
        return None
    return number if number >= 0 and os.isatty(number) else None
