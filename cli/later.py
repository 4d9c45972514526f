"""What is made beside the screen, so that the screen is there before tracing has begun."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from stalltop.model.source import Source
from stalltop.model.window import Window

T = TypeVar("T")


class Ahead(Generic[T]):
    """Makes a value in a thread of its own, from now on."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []
        self._error: BaseException | None = None
        # A daemon: what it began in the kernel ends with the program.
        self._thread = threading.Thread(target=self._run, name="ahead", daemon=True)
        self._thread.start()

    def take(self) -> T:
        """The value, once it is there. Raises what making it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._made.pop()

    def _run(self) -> None:
        try:
            self._made.append(self._make())
        except BaseException as error:
            self._error = error


class Later:
    """Makes the real source in the thread that reads it."""

    def __init__(self, make: Callable[[], Source]) -> None:
        self._make = make
        self._source: Source | None = None
        self._closed = False
        self._lock = threading.Lock()

    def read(self) -> Window:
        """The real source's window. Raises what making or reading it raises."""
        with self._lock:
            if self._closed:
                raise RuntimeError("read after close")
            if self._source is None:
                self._source = self._make()
        return self._source.read()

    def close(self) -> None:
        """Close the real source, if it was made; waits for its making to end."""
        with self._lock:
            self._closed = True
            source, self._source = self._source, None
        if source is not None:
            source.close()
