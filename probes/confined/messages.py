"""Sends and receives the messages between stalltop and its confined process: JSON, and open files.

A message consists of its length (4 bytes, big endian) and that many bytes of JSON. Its open files are sent
with its first byte (``SCM_RIGHTS``, unix(7)).
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

MOST_BYTES: Final = 32 << 20
"""Maximum length of a message. The longest ones list 2,048 mappings, each with a path of 4 KB."""
_MOST_FILES: Final = 250
"""Maximum number of open files that are received with one message (SCM_MAX_FD in Linux is 253)."""
_LENGTH: Final = 4
_RECEIVE_BYTES: Final = 1 << 16


def packed(message: Any) -> bytes:
    """Returns the bytes of a message."""
    text = json.dumps(message, separators=(",", ":")).encode("ascii")
    return len(text).to_bytes(_LENGTH, "big") + text


def send(connection: socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> None:
    """Sends messages; ``descriptors`` are the open files of the first of them. Raises OSError."""
    files = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    sent = connection.sendmsg([data], files)
    while sent < len(data):
        sent += connection.sendmsg([memoryview(data)[sent:]])


class Received:
    """Messages that arrive at a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()
        self.descriptors: deque[int] = deque()
        """Open files that were received, in the order of their messages."""

    def take(self) -> Any | None:
        """Returns the next message if it has arrived completely, else None. Raises ValueError if it is not a
        message."""
        if len(self._buffer) < _LENGTH:
            return None
        end = _LENGTH + int.from_bytes(self._buffer[:_LENGTH], "big")
        if end > MOST_BYTES:
            raise ValueError("a message is too long")
        if len(self._buffer) < end:
            return None
        text = bytes(self._buffer[_LENGTH:end])
        del self._buffer[:end]
        try:
            return json.loads(text)
        except RecursionError:
            raise ValueError("a message is nested too deeply") from None

    def receive(self) -> None:
        """Receives something, and waits for it. Raises OSError if nothing comes any more, and ValueError if
        more files come than messages can have."""
        data, files, _, _ = self._connection.recvmsg(
            _RECEIVE_BYTES,
            socket.CMSG_SPACE(_MOST_FILES * array.array("i").itemsize),
            socket.MSG_CMSG_CLOEXEC,
        )
        for level, kind, content in files:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers = array.array("i")
                numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
                self.descriptors += numbers
        if len(self.descriptors) > _MOST_FILES:
            raise ValueError("too many files")
        if not data:
            raise BrokenPipeError("the other process has ended")
        self._buffer += data

    def close(self) -> None:
        """Closes the files that were received and not taken."""
        while self.descriptors:
            with contextlib.suppress(OSError):
                os.close(self.descriptors.popleft())
