"""The server of a tracer that begins to trace: it starts beside that, and does not delay the first data."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from stalltop.model.window import Window

if TYPE_CHECKING:
    from stalltop.serving.host.tracer_server import TracerServer

START_SECONDS: Final = 2.0
"""The server starts after the first window, or after this time, also if the BPF programs are still compiled:
clients wait ``place.ANSWER_SECONDS`` for an answer. Importing the server at once would delay the first
data."""


class StartingServer:
    """Starts the server that ``serve`` returns after the first window or ``START_SECONDS``, in a thread.

    If that raises an error, calls ``failed``. Any thread may use it.
    """

    def __init__(
        self, serve: Callable[[], TracerServer], failed: Callable[[Exception], object] = bool
    ) -> None:
        self._serve = serve
        self._failed = failed
        self._server: TracerServer | None = None
        self._stopping = False
        self._lock = threading.Lock()
        self._due = threading.Event()
        threading.Thread(target=self._start, name="stalltop-serve", daemon=True).start()

    @property
    def clients(self) -> int:
        """Number of clients that get windows."""
        return 0 if self._server is None else self._server.clients

    def publish(self, window: Window) -> None:
        """Pass ``window`` to all clients."""
        if self._server is not None:
            self._server.publish(window)
        self._due.set()

    def stop(self) -> None:
        """Close all connections; start no server from now on. May be called twice."""
        with self._lock:
            self._stopping = True
            server = self._server
        self._due.set()
        if server is not None:
            server.stop()

    def _start(self) -> None:
        self._due.wait(START_SECONDS)
        try:
            with self._lock:
                if not self._stopping:
                    self._server = self._serve()
        except Exception as error:
            self._failed(error)
