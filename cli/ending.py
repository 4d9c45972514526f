"""Reads windows, one a second, until a signal asks a command without a screen to end."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final, Protocol

from stalltop.model.source import Source
from stalltop.tui.terminal.interrupts import REQUESTS

if TYPE_CHECKING:
    from stalltop.model.window import Window

INTERVAL: Final = 1.0
"""Seconds between two windows."""


class EndWait(Protocol):
    """Tells a thread that it has to end."""

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the thread has to end, or for ``timeout`` seconds; returns whether it has to."""


class EndRequest:
    """An `EndWait` that a signal handler may set.

    A handler runs between two instructions of the main thread: if that holds the lock of a threading.Event at
    this moment, because it begins or ends to wait, setting the event waits for ever.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def set(self) -> None:
        """Ends all waits."""
        self.is_set = True
        os.eventfd_write(self._bell, 1)

    def wait(self, timeout: float | None = None) -> bool:
        """See `EndWait`."""
        if not self.is_set:
            select.select([self._bell], (), (), timeout)
        return self.is_set

    def close(self) -> None:
        """Closes the descriptor. It must not be used after that."""
        os.close(self._bell)


@contextmanager
def requests(leave: Callable[[], object] = bool) -> Iterator[EndRequest]:
    """Yields an `EndRequest`. The first signal that asks stalltop to end (``REQUESTS``) sets it and calls
    ``leave``, which must take no lock; a second signal raises KeyboardInterrupt."""
    ended = EndRequest()
    before = {}

    def end(signum: int, frame: FrameType | None) -> None:
        if ended.is_set:
            raise KeyboardInterrupt
        ended.set()
        leave()

    try:
        for signum in REQUESTS:
            if signal.getsignal(signum) is not signal.SIG_IGN:  # nohup ignores SIGHUP: keep that
                before[signum] = signal.signal(signum, end)
        yield ended
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
        ended.close()


def read_until(
    source: Source,
    take: Callable[[Window], object],
    ended: EndWait,
    seconds: float | None = None,
) -> None:
    """Passes one window per second to ``take``, until ``ended`` is set or ``seconds`` are over.

    Reads one more window after that, so that everything up to the end is passed on.
    """
    from stalltop.serving.host.host_source import NoMoreWindowsError

    began = due = time.monotonic()
    last = False
    while not last:
        due = max(due + INTERVAL, time.monotonic())
        if seconds is not None:
            due = min(due, began + seconds)
        last = ended.wait(max(due - time.monotonic(), 0.0)) or (
            seconds is not None and due >= began + seconds
        )
        try:
            take(source.read())
        except NoMoreWindowsError:
            return
