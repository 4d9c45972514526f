"""Sources whose every read a test decides."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import replace

from stalltop.model.window import Window
from tests.unit.full_window import full_window
from tests.unit.windows import Calls, key, window


class Fed:
    """Gives the windows that a test puts in; a read waits for the next one, as a hung driver would."""

    def __init__(self, *windows: Window) -> None:
        self._queue: queue.Queue[Window | BaseException | None] = queue.Queue()
        self.reads = 0
        self.closed = threading.Event()
        for one in windows:
            self.put(one)

    def put(self, what: Window | BaseException) -> None:
        """The next read gives ``what``, or raises it."""
        self._queue.put(what)

    def read(self) -> Window:
        self.reads += 1
        what = self._queue.get()
        if isinstance(what, BaseException):
            raise what
        if what is None:
            raise RuntimeError("closed while reading")
        return what

    def close(self) -> None:
        self.closed.set()

    def release(self) -> None:
        """Let a read that waits end."""
        self._queue.put(None)


class Made:
    """Gives what ``make`` makes of the number of the read, from 0."""

    def __init__(self, make: Callable[[int], Window]) -> None:
        self._make = make
        self.reads = 0
        self.closed = threading.Event()

    def read(self) -> Window:
        self.reads += 1
        return self._make(self.reads - 1)

    def close(self) -> None:
        self.closed.set()


def numbered(number: int, seconds: float = 1.0) -> Window:
    """The full window, ``number`` windows later."""
    one = full_window()
    return replace(one, start=one.start + number * seconds, seconds=seconds)


def many(rows: int, factor: int = 1) -> Window:
    """A window of ``rows`` operations of one container; ``factor`` makes all of them longer."""
    return window(
        [Calls(key(f"operation{number:03}"), [factor * (number + 1) * 1000] * 3) for number in range(rows)]
    )
