"""Reads a source beside the screen, so that the screen never waits for it.

The thread is a daemon of our own: Textual waits at its end for the threads it started, and a read that
hangs in a driver would then keep the terminal.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.message import Message

from model.packing import Packed, pack
from model.sliding import Sliding
from model.source import Source
from model.window import Window

LENGTHS: tuple[float | None, ...] = (1.0, 10.0, 60.0, 300.0, None)
"""Lengths of the window that can be chosen, seconds; None: since the start."""
KEPT_SECONDS = 300.0
KEPT_BYTES = 20 << 20
"""Windows kept for longer lengths: as many seconds, but not more memory than this. With 400 rows that are all
busy and widely spread it holds about three minutes; the header says how far a window reaches back."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """All that the screen knows after one read."""

    window: Window
    """Of the length that was chosen."""
    length: float | None
    newest: Window
    """As it was read."""
    parts: tuple[Packed, ...]
    """The latest windows, oldest first, ending with the newest."""
    whole: Window
    """Since the start."""
    at: float
    """When it was read: time.monotonic()."""

    def of_length(self, length: float | None) -> Window:
        """The window of another length that ends at the same moment. Takes up to a second for long ones."""
        if length == self.length:
            return self.window
        return self.whole if length is None else Sliding(length, _latest(self.parts, length)).window


class Tick(Message):
    """New data. Only the newest one counts: a screen that is late skips the others."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot

    def can_replace(self, message: Message) -> bool:
        """A newer tick takes the place of one that was not handled yet."""
        return isinstance(message, Tick)


class Failed(Message):
    """The source raised; there will be no more data."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class Collector:
    """Reads ``source`` every ``interval`` seconds and hands each result to ``post`` from its own thread.

    A slow read skips ticks, it never queues them. ``still`` sources (saved windows) are read once.
    """

    def __init__(
        self,
        source: Source,
        post: Callable[[Message], object],
        *,
        interval: float = 1.0,
        length: float | None = 10.0,
        still: bool = False,
    ) -> None:
        self._source = source
        self._post = post
        self._interval = interval
        self._still = still
        self._length = length
        self._stopping = False
        self._wake = threading.Event()
        self._parts: deque[Packed] = deque()
        self._bytes = 0
        self._thread = threading.Thread(target=self._run, name="stalltop-collector", daemon=True)

    def start(self) -> None:
        """Begin reading."""
        self._thread.start()

    def choose(self, length: float | None) -> None:
        """From now on give windows of ``length`` seconds, the first at once unless a read is under way."""
        self._length = length
        self._wake.set()

    def stop(self, timeout: float) -> bool:
        """Stop and close the source; False where that took longer than ``timeout`` seconds and goes on."""
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._collect()
        except BaseException as error:
            self._post(Failed(error))
        finally:
            try:
                self._source.close()
            except Exception as error:
                self._post(Failed(error))

    def _collect(self) -> None:
        whole = Sliding(None)
        sliding = Sliding(self._length) if self._length is not None else whole
        due = time.monotonic()
        while not self._stopping:
            window = self._source.read()
            if self._stopping:
                return
            self._keep(window)
            whole.push(window)
            if sliding is not whole:
                sliding.push(window)
            at = time.monotonic()
            self._tell(sliding, whole, window, at)
            due = max(due + self._interval, at)
            while not self._stopping and (self._still or time.monotonic() < due):
                self._wake.wait(None if self._still else max(due - time.monotonic(), 0.0))
                self._wake.clear()
                length = self._length
                if length != sliding.seconds and not self._stopping:
                    sliding = whole if length is None else Sliding(length, _latest(self._parts, length))
                    self._tell(sliding, whole, window, at)

    def _tell(self, sliding: Sliding, whole: Sliding, newest: Window, at: float) -> None:
        all_of_it = whole.window
        window = all_of_it if sliding is whole else sliding.window
        self._post(Tick(Snapshot(window, sliding.seconds, newest, tuple(self._parts), all_of_it, at)))

    def _keep(self, window: Window) -> None:
        newest = pack(window)
        self._parts.append(newest)
        self._bytes += newest.bytes
        seconds = sum(part.window.seconds for part in self._parts)
        while len(self._parts) > 1 and (
            seconds - self._parts[0].window.seconds >= KEPT_SECONDS or self._bytes > KEPT_BYTES
        ):
            oldest = self._parts.popleft()
            seconds -= oldest.window.seconds
            self._bytes -= oldest.bytes


def _latest(parts: Sequence[Packed], length: float) -> list[Packed]:
    """The newest of ``parts`` that a window of ``length`` seconds may reach back to."""
    found: list[Packed] = []
    seconds = 0.0
    for part in reversed(parts):
        found.append(part)
        seconds += part.window.seconds
        if seconds >= length:
            break
    return found[::-1]
