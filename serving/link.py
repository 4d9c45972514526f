"""Passes windows to a screen in another process, through a socket.

A frame is a length (4 bytes, big endian) and a message of that many bytes (``recordings.message``). Frames go
one way only, from the server to the screen.
"""

from __future__ import annotations

import select
import socket
import struct

from stalltop.model.errors import StalltopError
from stalltop.model.merge.sliding import Sliding
from stalltop.model.window import Window
from stalltop.recordings.message.decoding import MessageDecoder
from stalltop.recordings.message.encoding import MOST_BYTES, encode

_LENGTH = struct.Struct(">I")
_AT_ONCE = 32
"""Maximum number of windows that one read merges. Without a maximum, a read would not return while windows
arrive faster than they are merged."""


def frame(window: Window) -> bytes:
    """Encodes ``window`` as a frame. Raises StalltopError if it is too large."""
    content = encode(window)
    return _LENGTH.pack(len(content)) + content


class LinkSource:
    """A source that reads windows from a socket, which it owns.

    ``read`` waits for a window and merges all windows that have arrived, so that a slow screen misses
    nothing.
    """

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._decoder = MessageDecoder()

    def read(self) -> Window:
        """Returns the windows that have arrived, merged. Raises StalltopError if the server has ended."""
        windows = [self._next()]
        while len(windows) < _AT_ONCE and select.select([self._link], [], [], 0)[0]:
            windows.append(self._next())
        if len(windows) == 1:
            return windows[0]
        sum_of_them = Sliding(None)
        for window in windows:
            sum_of_them.push(window)
        return sum_of_them.window

    def close(self) -> None:
        """Closes the socket."""
        self._link.close()

    def _next(self) -> Window:
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length > MOST_BYTES:
            raise StalltopError(
                f"invalid data from the server: a frame of {length:,} bytes", "reload the page"
            )
        try:
            return self._decoder.decode(self._exactly(length)).window
        except ValueError as error:
            raise StalltopError(f"invalid data from the server: {error}", "reload the page") from error

    def _exactly(self, length: int) -> bytes:
        content = bytearray()
        while len(content) < length:
            try:
                part = self._link.recv(length - len(content))
            except OSError:
                part = b""
            if not part:
                raise StalltopError(
                    "the server has ended", "start stalltop serve again and open the new address"
                )
            content += part
        return bytes(content)
