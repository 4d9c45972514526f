"""Creates values and sources in threads, so that the screen appears before tracing has begun."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from stalltop.model.source import Source
from stalltop.model.window import Window

T = TypeVar("T")


class Ahead(Generic[T]):
    """Starts a thread that creates a value. The thread starts in the constructor."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []
        self._error: BaseException | None = None
        # A daemon thread: if stalltop ends first, the Linux kernel frees the BPF programs and maps that the
        # thread loaded.
        self._thread = threading.Thread(target=self._run, name="ahead", daemon=True)
        self._thread.start()

    def take(self) -> T:
        """Waits for the value and returns it. Call this only once. If creating the value raised an exception,
        raises that exception."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._made.pop()

    def wait(self, seconds: float) -> None:
        """Waits for the value, but not longer than ``seconds``. If creating the value raised an exception in
        this time, raises that exception."""
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._made.append(self._make())
        except BaseException as error:
            self._error = error


class Later:
    """A source that creates the real source at the first read, in the thread that reads."""

    def __init__(self, make: Callable[[], Source]) -> None:
        self._make = make
        self._source: Source | None = None
        self._closed = False
        self._lock = threading.Lock()

    def read(self) -> Window:
        """Returns the next window of the real source. If creating or reading that source raises an exception,
        this method raises it."""
        with self._lock:
            if self._closed:
                raise RuntimeError("read after close")
            if self._source is None:
                self._source = self._make()
        return self._source.read()

    def close(self) -> None:
        """Closes the real source if it was created. If another thread is creating it, waits for that
        first."""
        with self._lock:
            self._closed = True
            source, self._source = self._source, None
        if source is not None:
            source.close()
