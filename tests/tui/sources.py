"""Provides sources whose reads a test controls."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import replace

from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, window
from tests.windows.full import full_window


class FedSource:
    """A source that returns the windows that a test puts in. If there is none, a read blocks, as on a hung
    driver."""

    def __init__(self, *windows: Window) -> None:
        self._queue: queue.Queue[Window | BaseException | None] = queue.Queue()
        self.reads = 0
        self.closed = threading.Event()
        for one in windows:
            self.put(one)

    def put(self, what: Window | BaseException) -> None:
        """Queue ``what`` for the next read: a window to return, or an exception to raise."""
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
        """End a read that blocks."""
        self._queue.put(None)


class MadeSource:
    """A source that returns ``make(n)`` for the ``n``-th read; the first read has the number 0."""

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
    """Return ``full_window()`` with the length ``seconds``, moved ``number`` times this length into the
    future."""
    one = full_window()
    return replace(one, start=one.start + number * seconds, seconds=seconds)


def many(rows: int, factor: int = 1) -> Window:
    """Return a window of ``rows`` operations of one container; ``factor`` multiplies their durations."""
    return window(
        [Calls(key(f"operation{number:03}"), [factor * (number + 1) * 1000] * 3) for number in range(rows)]
    )


def with_devices(number: int, count: int) -> Window:
    one = numbered(number)
    (first,) = one.devices.devices
    devices = tuple(
        replace(first, index=index, uuid=f"GPU-{index}", utilization_percent=10.0 * (index + number + 1))
        for index in range(count)
    )
    return replace(one, devices=replace(one.devices, devices=devices))
