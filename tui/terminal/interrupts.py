"""Requests to end that come before, or without, a screen: they end a command as Ctrl-C does."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

REQUESTS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
INTERRUPTED = 130
"""Exit code of what such a request ended: 128 and the number of SIGINT, as shells have it."""


@contextlib.contextmanager
def as_keyboard_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt on every request to end, so that what was begun is put back in order.

    What is ignored from the start (nohup) stays ignored, and what has a handler of its own keeps it.
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
