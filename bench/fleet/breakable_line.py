"""A TCP relay whose line can be cut: nothing passes, and nobody is told, as if a switch had failed."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Final, Self

_CHUNK: Final = 1 << 16


class BreakableLine:
    """Passes connections on to a port of the loopback address, while the line is whole."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._whole = threading.Event()
        self._whole.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._whole.set()
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def cut(self) -> None:
        """Lets nothing pass from now on."""
        self._whole.clear()

    def mend(self) -> None:
        """Lets everything pass again, also what waits."""
        self._whole.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._listener.accept()
                self._whole.wait()
                other = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += (one, other)
                for pair in ((one, other), (other, one)):
                    threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while content := source.recv(_CHUNK):
                self._whole.wait()
                target.sendall(content)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
