"""Serves gRPC over a Unix socket, as far as the stand-in kubelet needs it. The answer to each call is one
message. Streams are not supported."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived, StreamEnded, WindowUpdated
from h2.exceptions import ProtocolError

from stalltop.probes.kubelet.call import UNIMPLEMENTED

_PREFIX: Final = struct.Struct(">BI")
Answer = Callable[[str], bytes | None]
"""A function that is called with a method (``/package.Service/Method``). Returns the message that answers the
method; None if there is no such method."""


def listening_at(path: Path) -> socket.socket:
    """Returns a socket that listens at ``path``. ``path`` may be longer than the 107 bytes that a socket's
    address can hold. Raises OSError if the socket cannot be made."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")
        listening.listen()
    except BaseException:
        listening.close()
        raise
    finally:
        os.close(folder)
    return listening


class GrpcServer:
    """Answers calls at the Unix socket ``path`` until the ``with`` block ends. ``answer`` returns the
    messages."""

    def __init__(self, path: Path, answer: Answer) -> None:
        self._path = path
        self._answer = answer
        self._listening: socket.socket | None = None

    def __enter__(self) -> GrpcServer:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        self._listening = listening_at(self._path)
        threading.Thread(target=self._serve, args=(self._listening,), name="grpc", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listening is not None:
            self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                connected, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(connected,), daemon=True).start()

    def _converse(self, connected: socket.socket) -> None:
        with contextlib.suppress(OSError, ProtocolError), connected:
            _Connection(connected, self._answer).run()


class _Connection:
    """The connection of one client."""

    def __init__(self, connected: socket.socket, answer: Answer) -> None:
        self._socket = connected
        self._answer = answer
        self._http = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._methods: dict[int, str] = {}
        self._left: dict[int, bytes] = {}
        """By stream: the bytes that are still to be sent, because the client's flow-control window has no
        room for them yet."""

    def run(self) -> None:
        self._http.initiate_connection()
        self._send()
        while data := self._socket.recv(1 << 16):
            for event in self._http.receive_data(data):
                if isinstance(event, RequestReceived) and event.stream_id:
                    headers = {str(name): str(value) for name, value in event.headers or ()}
                    self._methods[event.stream_id] = headers.get(":path", "")
                elif isinstance(event, StreamEnded) and event.stream_id:
                    self._begin(event.stream_id)
                elif isinstance(event, WindowUpdated):
                    for stream in list(self._left):
                        self._go_on(stream)
            self._send()

    def _begin(self, stream: int) -> None:
        message = self._answer(self._methods.pop(stream, ""))
        self._http.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        if message is None:
            status = [("grpc-status", str(UNIMPLEMENTED)), ("grpc-message", "unknown method")]
            self._http.send_headers(stream, status, end_stream=True)
            return
        self._left[stream] = _PREFIX.pack(0, len(message)) + message
        self._go_on(stream)

    def _go_on(self, stream: int) -> None:
        left = self._left[stream]
        while left:
            room = min(self._http.local_flow_control_window(stream), self._http.max_outbound_frame_size)
            if room <= 0:
                break
            self._http.send_data(stream, left[:room])
            left = left[room:]
        self._left[stream] = left
        if not left:
            del self._left[stream]
            self._http.send_headers(stream, [("grpc-status", "0")], end_stream=True)

    def _send(self) -> None:
        data = self._http.data_to_send()
        if data:
            self._socket.sendall(data)
