"""Reads a source beside the screen, so that the screen never waits for it.

The thread is a daemon of our own: Textual waits at its end for the threads it started, and a read that
hangs in a driver would then keep the terminal.
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

FIRST_SECONDS = (0.1, 0.4)
"""Between the first reads."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """All that the screen knows after one read."""

    window: Window
    """Of the length that was chosen."""
    length: float | None
    newest: Window
    """As it was read."""
    kept: Past
    """What is kept of the past, ending with the newest; older windows stand for more time."""
    whole: Window | None
    """Since the start; None where it is still to be made."""
    at: float
    """When it was read: time.monotonic()."""
    grows: bool = False
    """It comes from a file, which another program has added to."""

    @property
    def began(self) -> float:
        """Unix time from which on windows were counted."""
        return float(self.kept.stretch.start[0]) if self.whole is None else self.whole.start

    def of_length(self, length: float | None, stale: Stale = never) -> Window | None:
        """The window of another length that ends at the same moment. Takes up to a second for long ones.

        None where ``stale`` says meanwhile that it is no longer wanted.
        """
        if length == self.length:
            return self.window
        if length is None and self.whole is not None:
            return self.whole
        return self.kept.window_at(self.kept.end, length, stale)


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


class SourceReader(ABC):
    """Hands snapshots to ``post``, from a thread of its own; an error ends it, and is handed over too."""

    def __init__(self, name: str, post: Callable[[Message], object]) -> None:
        self._post = post
        self._stopping = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stalltop-{name}", daemon=True)

    def start(self) -> None:
        """Begin reading."""
        self._thread.start()

    @abstractmethod
    def choose(self, length: float | None) -> None:
        """From now on give windows of ``length`` seconds; None: of all there is."""

    def stop(self, timeout: float) -> bool:
        """Stop and close what is read; False where that took longer than ``timeout`` seconds and goes on."""
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
        """Read until ``_stopping``, which wakes up who waits for ``_wake``."""

    @abstractmethod
    def _close(self) -> None:
        """Close what is read."""


class Collector(SourceReader):
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
        most_bytes: int = DEFAULT_BYTES,
    ) -> None:
        """``most_bytes`` bounds the memory of the past."""
        super().__init__("collector", post)
        self._source = source
        self._interval = interval
        self._still = still
        self._length = length
        self._history = History(most_bytes)

    def choose(self, length: float | None) -> None:
        """From now on give windows of ``length`` seconds, the first at once unless a read is under way."""
        self._length = length
        self._wake.set()

    def _close(self) -> None:
        self._source.close()

    def _read(self) -> None:
        whole = Sliding(None)
        sliding = Sliding(self._length) if self._length is not None else whole
        due, read = time.monotonic(), 0
        while not self._stopping:
            window = self._source.read()
            if self._stopping:
                return
            packed = self._history.add(window)
            whole.take_in(window)
            if sliding is not whole:
                sliding.take_in(window, packed)
            at = time.monotonic()
            parts = self._history.parts or (packed,)  # a window above the bound is not kept
            self._tell(sliding, whole, window, parts, at)
            # The first ones sooner: who starts the program waits for them.
            waits = FIRST_SECONDS[read] if read < len(FIRST_SECONDS) else self._interval
            read += 1
            due = max(due + min(waits, self._interval), at)
            while not self._stopping and (self._still or time.monotonic() < due):
                self._wake.wait(None if self._still else max(due - time.monotonic(), 0.0))
                self._wake.clear()
                length = self._length
                if length != sliding.seconds and not self._stopping:
                    sliding = whole if length is None else Sliding(length, latest(parts, length))
                    self._tell(sliding, whole, window, parts, at)

    def _tell(
        self, sliding: Sliding, whole: Sliding, newest: Window, parts: tuple[Packed, ...], at: float
    ) -> None:
        all_of_it = whole.window
        window = all_of_it if sliding is whole else sliding.window
        self._post(Tick(Snapshot(window, sliding.seconds, newest, InMemory(parts), all_of_it, at)))
