"""The wire format of a window: a byte, the version; then a message of ``recordings.message``, compressed by
zlib."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Final

from stalltop.fleet.messages.record_format import unpacked
from stalltop.model.calls import CapturedCalls
from stalltop.model.errors import StalltopError
from stalltop.model.window import Window
from stalltop.recordings.message.decoding import MessageDecoder
from stalltop.recordings.message.encoding import MOST_BYTES, encode

VERSION: Final = 1
_LEVEL: Final = 3
"""zlib's level: a fifth larger than at 6, in a third of the time."""

START, END, ID = "St-Start", "St-End", "Nats-Msg-Id"
"""Headers of a message: the times of the window (Unix seconds), and its id, by which the server drops
repetitions."""


def encoded_window(window: Window, most_bytes: int, *, whole: bool = False) -> bytes:
    """Returns ``window`` as a message of at most ``most_bytes``. A window that is too large is sent without
    its captured calls and its counts by CUDA kernel, unless ``whole``. Raises StalltopError if that does not
    suffice."""
    without = replace(window, calls=CapturedCalls(), kernels=())
    for one in (window,) if whole else (window, without):
        content = bytes((VERSION,)) + zlib.compress(encode(one), _LEVEL)
        if len(content) <= most_bytes:
            return content
    raise StalltopError(
        f"a window of {len(content):,} bytes is too large for the NATS server, which takes {most_bytes:,}",
        "raise max_payload in its configuration",
    )


def decoded_window(content: bytes, decoder: MessageDecoder | None = None) -> Window:
    """Returns the window in a message. ``decoder`` is the one of the sender. Raises OtherVersionError, and
    ValueError if it is no window."""
    return (decoder or MessageDecoder()).decode(unpacked(content, "window", VERSION, MOST_BYTES)).window
