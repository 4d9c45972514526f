"""A source that is made at its first read, so that the screen is there before tracing has begun."""

from __future__ import annotations

import threading
from collections.abc import Callable

from model.source import Source
from model.window import Window


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
