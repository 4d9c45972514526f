"""A tracer whose windows a test makes."""

from __future__ import annotations

from pathlib import Path

from stalltop.model.window import Window
from stalltop.serving.host.tracer_server import TracerServer
from tests.kernel.harness import wait_until
from tests.unit.serving.host.tracers import TRACER, seated


class PublishedWindows:
    """Listens on a socket, and sends windows to its clients."""

    def __init__(self, socket: Path) -> None:
        self._seat = seated(socket)
        self._server = TracerServer(self._seat.listener, TRACER)
        self._server.start()

    def publish(self, one: Window) -> None:
        wait_until(lambda: self._server.clients, what="a client")
        self._server.publish(one)

    def close(self) -> None:
        self._server.stop()
        self._seat.close()
