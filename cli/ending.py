"""Reads windows, one a second, until a signal asks a command without a screen to end."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
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
        self._heard, self.bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        """``bell``: a byte written to it lets waits look whether they are over."""
        self._poll = select.poll()
        self._poll.register(self._heard, select.POLLIN)

    def set(self) -> None:
        """Ends all waits."""
        self.is_set = True
        with contextlib.suppress(BlockingIOError):
            os.write(self.bell, b"!")

    def wait(self, timeout: float | None = None) -> bool:
        """See `EndWait`. Only one thread may wait."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self.is_set and (left := end - time.monotonic()) > 0:
            self._poll.poll(None if left == math.inf else math.ceil(left * 1000))
            with contextlib.suppress(BlockingIOError):
                os.read(self._heard, 4096)
        return self.is_set

    def close(self) -> None:
        """Closes the descriptors. It must not be used after that."""
        os.close(self._heard)
        os.close(self.bell)


@contextlib.contextmanager
def requests(leave: Callable[[], object] = bool) -> Iterator[EndRequest]:
    """Yields an `EndRequest`. The first signal that asks stalltop to end (``REQUESTS``) sets it and calls
    ``leave``, which must take no lock; a second signal raises KeyboardInterrupt. To be used in the main
    thread."""
    ended = EndRequest()
    before = {}

    def end(signum: int, frame: FrameType | None) -> None:
        if ended.is_set:
            raise KeyboardInterrupt
        ended.set()
        leave()

    # The handler runs only when Python does; this wakes a wait that was about to begin.
    bell_before = signal.set_wakeup_fd(ended.bell, warn_on_full_buffer=False)
    try:
        for signum in REQUESTS:
            if signal.getsignal(signum) is not signal.SIG_IGN:  # nohup ignores SIGHUP: keep that
                before[signum] = signal.signal(signum, end)
        yield ended
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(bell_before)
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
