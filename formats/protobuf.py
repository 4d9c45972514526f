"""Writes the wire format of protocol buffers as fields by number: what small messages need.

Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

_VARINT, _FIXED64, _BYTES = 0, 1, 2
"""Wire types."""

_SHORT = tuple(bytes((value,)) for value in range(0x80))
"""The integers that take one byte, which most do."""

Field = tuple[int, int | float | str | bytes | Sequence[int]]
"""Number of a field, and its value: an integer that is not negative, a double, a string, an encoded message,
or several integers (packed)."""


def encoded(parts: Iterable[Field]) -> bytes:
    """Returns an encoded message that has the fields ``parts``."""
    found = bytearray()
    for number, value in parts:
        if isinstance(value, int):
            found += varint(number << 3 | _VARINT) + varint(value)
        elif isinstance(value, float):
            found += varint(number << 3 | _FIXED64) + struct.pack("<d", value)
        else:
            content = _content(value)
            found += varint(number << 3 | _BYTES) + varint(len(content)) + content
    return bytes(found)


def varint(value: int) -> bytes:
    """Returns an integer that is not negative, without the number of a field."""
    if value < 0x80:
        return _SHORT[value]
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def zigzag(value: int) -> int:
    """Returns a signed integer as the types sint32 and sint64 have it."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def _content(value: str | bytes | Sequence[int]) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return b"".join(map(varint, value))
