"""The tracer's own windows, which are also passed to its clients."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from stalltop.model.merge.history import History
from stalltop.model.merge.merging import merge
from stalltop.model.source import Source
from stalltop.model.window import Window
from stalltop.serving.host.place import TracerSeat

if TYPE_CHECKING:
    from stalltop.serving.host.starting_server import StartingServer
    from stalltop.serving.host.tracer_server import TracerServer

PACE_SECONDS: Final = 1.0
"""Clients get a window at least this often, however seldom the tracer's own screen reads."""
_JOIN_SECONDS: Final = 0.5
"""Longest wait, at the end, for a read for the clients."""
_LATE_SECONDS: Final = 0.3
"""The pacer reads only if the tracer itself is later than this."""


class SharedSource:
    """Passes on the windows of ``source`` and publishes each of them. Any thread may read.

    Between two reads that are further apart than ``PACE_SECONDS``, windows are read for the clients only; the
    next read returns them merged.
    """

    def __init__(
        self,
        source: Source,
        seat: TracerSeat,
        server: TracerServer | StartingServer,
        history: History | None = None,
    ) -> None:
        """``server`` passes windows to clients. ``history`` gets all windows; None: somebody else keeps the
        past."""
        self._source = source
        self._seat = seat
        self._server = server
        self._history = history
        self._lock = threading.Lock()
        self._parts: list[Window] = []
        self._read_at = time.monotonic()
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._pacer = threading.Thread(target=self._pace, name="stalltop-pace", daemon=True)
        self._pacer.start()

    def read(self) -> Window:
        """Return what happened since the last read."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            self._parts.append(self._next())
            parts, self._parts = self._parts, []
        return merge(parts)

    def close(self) -> None:
        """Give up the seat of the tracer, so that a client can take it, and close the source. May be called
        twice."""
        self._stopping.set()
        self._pacer.join(_JOIN_SECONDS)
        self._server.stop()
        self._seat.close()
        with self._lock:
            self._source.close()

    def _next(self) -> Window:
        window = self._source.read()
        self._read_at = time.monotonic()
        self._server.publish(window)
        if self._history is not None:
            self._history.add(window)
        return window

    @property
    def clients(self) -> int:
        """Number of clients that get windows."""
        return self._server.clients

    def _pace(self) -> None:
        while not self._stopping.wait(PACE_SECONDS / 4):
            late = time.monotonic() - self._read_at - PACE_SECONDS > _LATE_SECONDS
            if not late or not self.clients:
                continue
            with self._lock:
                if self._stopping.is_set():
                    return
                try:
                    self._parts.append(self._next())
                except BaseException as error:  # the next read raises it
                    self._failure = error
                    return
                if len(self._parts) > 8:
                    self._parts = [merge(self._parts)]
