"""Handles requests to end: names the signals, and lets them end a command without a screen as Ctrl-C does."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

REQUESTS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
INTERRUPTED = 130
"""Exit code after one of ``REQUESTS``: 128 plus the number of SIGINT, as in shells."""


@contextlib.contextmanager
def as_keyboard_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt at each request to end, so that cleanup code runs.

    A signal that is ignored from the start (nohup) stays ignored. A signal that has a handler keeps it.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in REQUESTS:
            if signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
