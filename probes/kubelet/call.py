"""Makes one gRPC call over a Unix socket. The time that it takes and the size of the answer are limited.

https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md: a call is a POST over HTTP/2 whose body is a
length and a message, and whose trailers hold the status.
"""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError

from stalltop.model.text.clean import clean
from stalltop.probes.tenants.unix_socket import connected

_PREFIX: Final = struct.Struct(">BI")
"""Header of a message: a flag that says whether it is compressed, and its length."""
_READ_BYTES: Final = 1 << 16
_OK: Final = "0"
UNIMPLEMENTED: Final = 12
"""gRPC status for a method that the server does not have."""


class KubeletCallError(Exception):
    """The call got no answer, or none that can be used; the error's text gives the reason in one line."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        """gRPC status, or None if the server gave none."""


def call(path: Path, method: str, request: bytes = b"", *, seconds: float, most_bytes: int) -> bytes:
    """Returns the answer of the server at the socket ``path`` to a call of ``method``
    (``/package.Service/Method``).

    Raises KubeletCallError, also if the call takes longer than ``seconds`` or the answer is larger than
    ``most_bytes``.
    """
    until = time.monotonic() + seconds
    try:
        with connected(path, seconds) as connection:
            return _CallConnection(connection, until, most_bytes).made(method, request)
    except TimeoutError:
        raise KubeletCallError(f"no answer within {seconds:g} s") from None
    except OSError as error:
        raise KubeletCallError(f"{error.strerror or error}") from None
    except (ProtocolError, ValueError) as error:
        raise KubeletCallError(
            f"it does not speak gRPC ({clean(str(error)) or type(error).__name__})"
        ) from None


class _CallConnection:
    """A connection for one call."""

    def __init__(self, connection: socket.socket, until: float, most_bytes: int) -> None:
        self._socket = connection
        self._until = until
        self._most_bytes = most_bytes
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._body = bytearray()
        self._status: str | None = None
        self._message = ""
        self._ended = False

    def made(self, method: str, request: bytes) -> bytes:
        """Makes the call and returns the answer."""
        self._http.initiate_connection()
        stream = self._http.get_next_available_stream_id()
        self._http.send_headers(
            stream,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", method),
                (":authority", "localhost"),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "stalltop"),
            ],
        )
        self._http.send_data(stream, _PREFIX.pack(0, len(request)) + request, end_stream=True)
        self._send()
        while not self._ended:
            self._socket.settimeout(max(self._until - time.monotonic(), 1e-3))
            data = self._socket.recv(_READ_BYTES)
            if time.monotonic() > self._until:
                raise TimeoutError
            if not data:
                raise KubeletCallError("the connection was closed before the answer")
            for event in self._http.receive_data(data):
                self._take(event)
            self._send()
        return self._answer()

    def _send(self) -> None:
        data = self._http.data_to_send()
        if data:
            self._socket.sendall(data)

    def _take(self, event: Event) -> None:
        if isinstance(event, (ResponseReceived, TrailersReceived)):
            headers = {str(name): str(value) for name, value in event.headers or ()}
            if headers.get(":status", "200") != "200":
                raise KubeletCallError(f"it answered with HTTP status {clean(headers[':status'])}")
            self._status = headers.get("grpc-status", self._status)
            self._message = headers.get("grpc-message", self._message)
        elif isinstance(event, DataReceived):
            self._body += event.data or b""
            if len(self._body) > self._most_bytes + _PREFIX.size:
                raise KubeletCallError(f"its answer is larger than {self._most_bytes >> 20} MiB")
            length, stream = event.flow_controlled_length, event.stream_id
            if length and stream:
                self._http.acknowledge_received_data(length, stream)
        elif isinstance(event, StreamEnded):
            self._ended = True
        elif isinstance(event, StreamReset):
            raise KubeletCallError(f"the call was cut off ({_named(event.error_code)})")
        elif isinstance(event, ConnectionTerminated) and event.error_code:
            raise KubeletCallError(f"the connection was cut off ({_named(event.error_code)})")

    def _answer(self) -> bytes:
        if self._status != _OK:
            number = int(self._status) if self._status is not None and self._status.isdecimal() else None
            said = clean(unquote(self._message)) or "nothing more"
            raise KubeletCallError(f"gRPC status {'unknown' if number is None else number}: {said}", number)
        if len(self._body) < _PREFIX.size:
            raise KubeletCallError("its answer is empty")
        compressed, length = _PREFIX.unpack_from(self._body)
        if compressed or length != len(self._body) - _PREFIX.size:
            raise KubeletCallError("its answer is not a single message")
        return bytes(self._body[_PREFIX.size :])


def _named(code: ErrorCodes | int | None) -> str:
    return code.name if isinstance(code, ErrorCodes) else f"code {code}"
