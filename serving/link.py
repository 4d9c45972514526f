"""Windows on their way to a screen in another process, through a socket.

A frame is the length of what follows (4 bytes, big endian), then a window as
``serving.wire`` writes it. Frames go one way only: a screen has nothing to tell.
"""

from __future__ import annotations

import select
import socket
import struct

from stalltop.model.errors import StalltopError
from stalltop.model.merge.sliding import Sliding
from stalltop.model.window import Window
from stalltop.serving.wire import MOST_BYTES, decode, encode

_LENGTH = struct.Struct(">I")
_AT_ONCE = 32
"""Most windows that one read adds up, so that it ends although more keep coming."""


def frame(window: Window) -> bytes:
    """``window`` as a frame. Raises StalltopError where it is too large."""
    content = encode(window)
    return _LENGTH.pack(len(content)) + content


class LinkSource:
    """A source whose windows come through a socket, which it owns.

    ``read`` waits for a window. Those that came since the last read are given as one, so that a screen
    which is late misses nothing.
    """

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def read(self) -> Window:
        """What has come. Raises StalltopError where nothing more will."""
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
        """Give the socket back."""
        self._link.close()

    def _next(self) -> Window:
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length > MOST_BYTES:
            raise StalltopError("what came from the server is no window")
        try:
            return decode(self._exactly(length))
        except ValueError as error:
            raise StalltopError(f"what came from the server is no window: {error}") from error

    def _exactly(self, length: int) -> bytes:
        content = bytearray()
        while len(content) < length:
            try:
                part = self._link.recv(length - len(content))
            except OSError:
                part = b""
            if not part:
                raise StalltopError("the server has ended")
            content += part
        return bytes(content)
