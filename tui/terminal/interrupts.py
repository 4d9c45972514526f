"""Handles requests to end: names the signals, and lets them end a command without a screen as Ctrl-C does."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

REQUESTS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 plus the number of SIGINT, as in shells."""


def exit_code(number: int) -> int:
    """Return the exit code after the signal ``number``, as in shells: 143 after SIGTERM, 129 after SIGHUP."""
    return 128 + number


class RequestedEndError(KeyboardInterrupt):
    """Raised at SIGTERM or SIGHUP, so that code that cleans up after Ctrl-C runs then, too."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = exit_code(number)


def _raise(number: int, frame: FrameType | None) -> None:
    raise RequestedEndError(number)


@contextlib.contextmanager
def as_keyboard_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt at each request to end (``RequestedEndError`` at SIGTERM and SIGHUP), so that
    cleanup code runs.

    A signal that is ignored from the start (nohup) stays ignored. A signal that has a handler keeps it.
    """
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in REQUESTS:
            if signal.getsignal(number) is signal.SIG_DFL:
                # asyncio recognises Python's own handler of SIGINT, and handles Ctrl-C itself then.
                usual = number == signal.SIGINT
                before[number] = signal.signal(number, signal.default_int_handler if usual else _raise)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
