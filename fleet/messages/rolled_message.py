"""The wire format of merged windows: a byte, the version; the length of a JSON object (4 bytes, big endian);
that object; and the windows, as in ``recordings.message``, all compressed by zlib.

The object has ``upto``, the sequence number of the last message of the source stream that is counted up to
here, ``messages``, how many of them this message counts, and ``windows``, the length of each window.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stalltop.files.plain import integer
from stalltop.fleet.messages.record_format import unpacked
from stalltop.model.window import Window
from stalltop.recordings.message.decoding import MessageDecoder
from stalltop.recordings.message.encoding import MOST_BYTES, encode

VERSION: Final = 1
UPTO: Final = "St-Upto"
"""Header of a message: ``upto``, for readers that need only that."""
_LENGTH: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True, eq=False)
class RolledBatch:
    """Merged windows of one rack and tier. A later batch may have another window of the same period, if
    windows of hosts came late: the two add up."""

    upto: int
    """Sequence number in the source stream up to which messages are counted."""
    messages: int
    """Messages of the source stream that this batch counts."""
    windows: tuple[Window, ...]


def encoded_batch(batch: RolledBatch) -> bytes:
    """Returns ``batch`` as a message. Raises StalltopError if a window is too large."""
    windows = [encode(window) for window in batch.windows]
    head = {"upto": batch.upto, "messages": batch.messages, "windows": [len(one) for one in windows]}
    text = json.dumps(head).encode()
    content = b"".join((_LENGTH.pack(len(text)), text, *windows))
    return bytes((VERSION,)) + zlib.compress(content, 6)


def decoded_batch(content: bytes) -> RolledBatch:
    """Decodes a message of merged windows. Raises OtherVersionError, and ValueError if it is malformed."""
    plain = unpacked(content, "merged windows", VERSION, MOST_BYTES)
    try:
        (length,) = _LENGTH.unpack_from(plain)
        head = json.loads(plain[_LENGTH.size : _LENGTH.size + length])
        lengths: Sequence[int] = [integer(one, "windows") for one in head["windows"]]
        upto, messages = integer(head["upto"], "upto"), integer(head["messages"], "messages")
    except (struct.error, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"no merged windows: {error}") from None
    at, windows, decoder = _LENGTH.size + length, [], MessageDecoder()
    for one in lengths:
        windows.append(decoder.decode(plain[at : at + one]).window)
        at += one
    if at != len(plain):
        raise ValueError("the message is longer than its windows")
    return RolledBatch(upto, messages, tuple(windows))
