"""Ends the program in good order after a signal or the loss of the terminal, even if the screen is blocked.

This module asks the app to end. If the app does not end soon, for example because its output is blocked, this
module restores the terminal and ends the process. The probes end with the process.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self

from stalltop.tui.terminal.abilities import drawn_on
from stalltop.tui.terminal.interrupts import REQUESTS, exit_code

GRACE_SECONDS = 0.7
"""Seconds that the app has to end after a request."""
RESTORE_SECONDS = 0.5
"""Seconds for which this module tries to restore a terminal that accepts no output."""
RESTORE = (
    "\x18\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?2048l\x1b[?1004l\x1b[<u"
    "\x1b[?1049l\x1b[?25h\x1b[0m"
)
"""Ends an unfinished sequence. Turns off bracketed paste, mouse reports and their encodings, resize and focus
reports, the keyboard protocol and the alternate screen. Turns on line wrapping and the cursor, and resets the
style."""

_WRITING: Final = "textual-output"
"""Name of the thread of Textual that writes to the terminal."""


class Leaving:
    """While this context is open, a signal or the loss of the terminal ends the app: a thread calls
    ``leave``.

    The signal handler only writes a byte, because the main thread may hold any lock when it runs.
    """

    def __init__(self, leave: Callable[[], None], last_steps: Callable[[], object] = lambda: None) -> None:
        self._leave = leave
        self._last_steps = last_steps
        self._done = threading.Event()
        self._screen_ended = threading.Event()
        self._bell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._number: int = signal.SIGHUP
        """The signal that asked the app to end. The loss of the terminal counts as SIGHUP."""
        self._asked = False
        """Whether a signal asked the app to end."""
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
            # A signal that is ignored from the start (nohup) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        self._hook_before = threading.excepthook
        threading.excepthook = self._on_thread_error
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._screen_ended.set()
        self._ring()
        self._thread.join()
        threading.excepthook = self._hook_before
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for end in self._bell:
            os.close(end)

    @property
    def exit_code(self) -> int | None:
        """Return the exit code after the first signal that asked the app to end, or after the loss of the
        terminal; None if neither happened."""
        return exit_code(self._number) if self._asked or self.lost() else None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._asked:
            self._asked, self._number = True, number
        self._ring()

    def _on_thread_error(self, error: threading.ExceptHookArgs) -> None:
        """Report an error of a thread, but not that Textual's writing thread cannot write to a terminal that
        is gone: that ends the app in its own way."""
        written = error.thread is not None and error.thread.name == _WRITING
        if not (written and isinstance(error.exc_value, OSError) and self.lost()):
            self._hook_before(error)

    def _ring(self) -> None:
        # If the pipe is full, the bytes in it wake the thread.
        with contextlib.suppress(BlockingIOError):
            os.write(self._bell[1], b"!")

    def _watch(self) -> None:
        """Wait for a signal or for the loss of the terminal, which nothing else reports if SIGHUP is
        ignored."""
        poll = select.poll()
        poll.register(self._bell[0], select.POLLIN)
        if self._descriptor is not None:
            poll.register(self._descriptor, 0)  # errors and hang-ups are always reported
        poll.poll()
        if self._done.is_set():
            return
        self._leave()
        if not self._screen_ended.wait(GRACE_SECONDS):
            self._restore()
            self._last_steps()
            os._exit(exit_code(self._number))

    def screen_ended(self) -> None:
        """Note that the app has ended and restored the terminal. The remaining steps limit their own time."""
        self._screen_ended.set()

    def lost(self) -> bool:
        """Return whether the terminal is gone."""
        if self._descriptor is None:
            return False
        poll = select.poll()
        poll.register(self._descriptor, 0)  # errors and hang-ups are always reported
        return any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))

    def _restore(self) -> None:
        """Restore the terminal, in at most ``RESTORE_SECONDS``."""
        if self._descriptor is None:
            return
        try:
            # Open the terminal again: O_NONBLOCK on the shared description would remain for the shell.
            own = os.open(
                os.ttyname(self._descriptor), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            )
            # Textual's writing thread may be blocked in a write, with the terminal locked. A signal
            # interrupts it, and the rest of its output goes to /dev/null.
            os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), self._descriptor)
            for thread in threading.enumerate():
                if thread.name == _WRITING and thread.ident is not None:
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
    """Return the descriptor of the terminal on which the screen is drawn; None if there is no terminal."""
    stream = drawn_on()
    return None if stream is None else stream.fileno()
