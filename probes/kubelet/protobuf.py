"""Reads the wire format of protocol buffers as fields by number, without types. Supports only the
features that a few small messages need.

https://protobuf.dev/programming-guides/encoding/. The input is not trusted: every length is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types. No message that is read has groups (3 and 4)."""
_LONGEST: Final = 10
"""Longest encoded integer, bytes."""
_SKIPPED: Final = {_FIXED64: 8, _FIXED32: 4}

Field = tuple[int, int | bytes]
"""Number of a field, and its value: an integer, or the bytes of a string or of a message."""


def fields(message: bytes) -> Iterator[Field]:
    """Yields the fields of ``message`` in their order; leaves out numbers of fixed length. Raises ValueError
    if ``message`` is not valid."""
    at = 0
    while at < len(message):
        tag, at = _integer(message, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise ValueError("a field has the number 0")
        if kind == _VARINT:
            value, at = _integer(message, at)
            yield number, value
        elif kind == _BYTES:
            length, at = _integer(message, at)
            if length > len(message) - at:
                raise ValueError("a field extends past the end of its message")
            yield number, message[at : at + length]
            at += length
        elif kind in _SKIPPED:
            at += _SKIPPED[kind]
            if at > len(message):
                raise ValueError("a field extends past the end of its message")
        else:
            raise ValueError(f"wire type {kind} is not known")


def texts(message: bytes, number: int) -> list[str]:
    """Returns all strings of field ``number``; bytes that are not UTF-8 are replaced."""
    return [part.decode("utf-8", "replace") for part in messages(message, number)]


def text(message: bytes, number: int) -> str:
    """Returns the string of field ``number``, the last if there are several; '' if there is none."""
    return (texts(message, number) or [""])[-1]


def number(message: bytes, number: int) -> int:
    """Returns the integer of field ``number``, the last if there are several; 0 if there is none."""
    return ([value for at, value in fields(message) if at == number and isinstance(value, int)] or [0])[-1]


def messages(message: bytes, number: int) -> list[bytes]:
    """Returns all messages (or strings) of field ``number``."""
    return [value for at, value in fields(message) if at == number and isinstance(value, bytes)]


def _integer(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_LONGEST):
        if at >= len(message):
            raise ValueError("the message ends within a number")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise ValueError("a number is longer than 10 bytes")
