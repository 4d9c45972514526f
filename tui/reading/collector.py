"""Reads a source in the background, so that the screen never waits for it.

A daemon thread of this module reads, not a worker of Textual: at its end, Textual waits for its workers, so a
read that hangs in a driver would block the terminal.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message

from stalltop.model.merge.history import DEFAULT_BYTES, History, latest
from stalltop.model.merge.packing import Packed
from stalltop.model.merge.sliding import Sliding
from stalltop.model.source import Source
from stalltop.model.window import Window
from stalltop.recordings.past.kept import InMemory, Past, Stale, never
from stalltop.tui.reading.since_start import SinceStart, SummedWindows

FIRST_SECONDS = (0.1, 0.4, 0.5, 0.8)
"""Seconds before each of the next reads. They are short, because the user waits for the first figures, and
the diagnosis for two windows of ``diagnosis.engine.NEWEST_SECONDS``."""
_PACED_SHARE = 0.9
"""A read that waits for another process begins after this share of the interval: a little before the next
window comes, because nothing else is handled during a read."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The data that the screen has after one read."""

    window: Window
    """The window of the chosen length."""
    length: float | None
    newest: Window
    """The window as it was read."""
    kept: Past
    """The kept windows of the past, up to the newest. Older windows cover more time."""
    whole: SummedWindows | None
    """The window since the start; None: that of all data in ``kept``."""
    at: float
    """When the window was read, as returned by time.monotonic()."""
    grows: bool = False
    """Whether the data comes from a file to which another program has added."""

    @property
    def began(self) -> float:
        """Return the Unix time at which counting began."""
        return float(self.kept.stretch.start[0]) if self.whole is None else self.whole.start

    def of_length(self, length: float | None, stale: Stale = never) -> Window | None:
        """Return the window of another length that ends at the same moment. A long window takes up to a
        second to compute.

        ``stale`` returns True as soon as the window is no longer wanted; then the result is None.
        """
        if length == self.length:
            return self.window
        if length is None and self.whole is not None:
            return self.whole.window()
        return self.kept.window_at(self.kept.end, length, stale)


class Tick(Message):
    """New data. Only the newest tick matters: a screen that is late skips older ones."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot

    def can_replace(self, message: Message) -> bool:
        """Let a newer tick replace one that was not handled yet."""
        return isinstance(message, Tick)


class Failed(Message):
    """Reports that the source raised an error, so that no more data will come."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class SourceReader(ABC):
    """Posts snapshots with ``post`` from a thread of its own. An error is posted too, and ends the thread."""

    def __init__(self, name: str, post: Callable[[Message], object]) -> None:
        self._post = post
        self._stopping = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stalltop-{name}", daemon=True)

    def start(self) -> None:
        """Start to read."""
        self._thread.start()

    @abstractmethod
    def choose(self, length: float | None) -> None:
        """Post windows of ``length`` seconds from now on; None: of all data."""

    def stop(self, timeout: float) -> bool:
        """Stop reading, and close the source. Returns False if that takes longer than ``timeout`` seconds; it
        then continues in the background."""
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._read()
        except BaseException as error:
            self._post(Failed(error))
        finally:
            try:
                self._close()
            except Exception as error:
                self._post(Failed(error))

    @abstractmethod
    def _read(self) -> None:
        """Read until ``_stopping`` is set. Setting ``_wake`` ends a wait."""

    @abstractmethod
    def _close(self) -> None:
        """Close the source."""


class Collector(SourceReader):
    """Reads ``source`` every ``interval`` seconds and posts each result from its own thread.

    Reads that are due during a slow read are skipped, not queued. A ``still`` source (a saved window) is read
    once.
    """

    def __init__(
        self,
        source: Source,
        post: Callable[[Message], object],
        *,
        interval: float = 1.0,
        length: float | None = 10.0,
        still: bool = False,
        most_bytes: int = DEFAULT_BYTES,
        history: History | None = None,
        paced: Callable[[], bool] = bool,
    ) -> None:
        """``most_bytes`` is the most memory, in bytes, for the windows of the past. They are kept in
        ``history``, if that is given. ``paced`` returns whether a read waits for the window of another
        process."""
        super().__init__("collector", post)
        self._source = source
        self._interval = interval
        self._still = still
        self._paced = paced
        self._length = length
        self._history = History(most_bytes) if history is None else history

    def choose(self, length: float | None) -> None:
        """Post windows of ``length`` seconds from now on, the first one at once unless a read is running."""
        self._length = length
        self._wake.set()

    def _close(self) -> None:
        self._source.close()

    def _read(self) -> None:
        whole = SinceStart()
        sliding = None if self._length is None else Sliding(self._length)
        due, read = time.monotonic(), 0
        while not self._stopping:
            window = self._source.read()
            if self._stopping:
                return
            packed = self._history.add(window)
            whole.take_in(window)
            if sliding is not None:
                sliding.take_in(window, packed)
            at = time.monotonic()
            parts = self._history.parts or (packed,)  # empty if the window exceeds the limit
            self._tell(sliding, whole, window, parts, at)
            # The first intervals are shorter, because the user waits for data.
            waits = FIRST_SECONDS[read] if read < len(FIRST_SECONDS) else self._interval
            read += 1
            waits = min(waits, self._interval)
            due = at + _PACED_SHARE * waits if self._paced() else max(due + waits, at)
            while not self._stopping and (self._still or time.monotonic() < due):
                self._wake.wait(None if self._still else max(due - time.monotonic(), 0.0))
                self._wake.clear()
                length = self._length
                if length != (sliding and sliding.seconds) and not self._stopping:
                    sliding = None if length is None else Sliding(length, latest(parts, length))
                    self._tell(sliding, whole, window, parts, at)

    def _tell(
        self,
        sliding: Sliding | None,
        whole: SinceStart,
        newest: Window,
        parts: tuple[Packed, ...],
        at: float,
    ) -> None:
        """Post the window of ``sliding``, or with None the one since the start."""
        window = whole.window if sliding is None else sliding.window
        length = None if sliding is None else sliding.seconds
        self._post(Tick(Snapshot(window, length, newest, InMemory(parts), whole.whole, at)))
