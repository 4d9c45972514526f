"""HdrHistogram V2 compressed payloads: the form in which histograms leave this program.

Any HdrHistogram library reads them. The layout is the one of HdrHistogram's V2 encoding: a header,
zlib data, in it a second header and the counters as ZigZag LEB128 integers, where a negative number
stands for so many empty counters. What is decoded here may come from anywhere, so every size is checked.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from model.hdr import COUNTERS, HIGHEST_NS

_COMPRESSED = struct.Struct(">ii")
"""Cookie, length of the compressed data."""
_HEADER = struct.Struct(">iiiiqqd")
"""Cookie, length of the counters, index offset, significant digits, lowest and highest value, ratio."""
_COMPRESSED_COOKIE = 0x1C849304 | 0x10
_PLAIN_COOKIE = 0x1C849303 | 0x10
_DIGITS = 2
_LONGEST = 9
"""Bytes of the longest integer; its last byte holds eight bits, not seven."""
_MOST_BYTES = _HEADER.size + COUNTERS * _LONGEST


def encode(index: NDArray[np.integer], count: NDArray[np.integer]) -> str:
    """The payload, in base64, of one histogram: counters ``index`` (rising) hold ``count`` (below 2^63)."""
    counters = bytearray()
    at = 0
    for place, value in zip(index.tolist(), count.tolist(), strict=True):
        if place > at:
            _put(counters, at - place)
        _put(counters, value)
        at = place + 1
    plain = _HEADER.pack(_PLAIN_COOKIE, len(counters), 0, _DIGITS, 1, HIGHEST_NS, 1.0) + bytes(counters)
    packed = zlib.compress(plain, 6)
    return base64.b64encode(_COMPRESSED.pack(_COMPRESSED_COOKIE, len(packed)) + packed).decode("ascii")


def decode(payload: str) -> tuple[NDArray[np.uint16], NDArray[np.uint64]]:
    """Counters and counts of one histogram. Raises ValueError where ``payload`` has another geometry."""
    try:
        data = base64.b64decode(payload, validate=True)
        cookie, length = _COMPRESSED.unpack_from(data)
        if cookie != _COMPRESSED_COOKIE or length != len(data) - _COMPRESSED.size:
            raise ValueError("no HdrHistogram V2 payload")
        inflate = zlib.decompressobj()
        plain = inflate.decompress(data[_COMPRESSED.size :], _MOST_BYTES)
        if not inflate.eof or inflate.unused_data:
            raise ValueError("a histogram is cut off or too long")
        header = _HEADER.unpack_from(plain)
    except (binascii.Error, struct.error, zlib.error) as error:
        raise ValueError(f"no HdrHistogram payload: {error}") from None
    if header != (_PLAIN_COOKIE, len(plain) - _HEADER.size, 0, _DIGITS, 1, HIGHEST_NS, 1.0):
        raise ValueError("a histogram of another geometry")
    return _counters(plain)


def _put(buffer: bytearray, value: int) -> None:
    rest = (value << 1) ^ (value >> 63)
    for _ in range(_LONGEST - 1):
        if rest < 0x80:
            break
        buffer.append(rest & 0x7F | 0x80)
        rest >>= 7
    buffer.append(rest)


def _counters(plain: bytes) -> tuple[NDArray[np.uint16], NDArray[np.uint64]]:
    index: list[int] = []
    count: list[int] = []
    place, at = 0, _HEADER.size
    while at < len(plain):
        rest = shift = 0
        for number in range(_LONGEST):
            if at >= len(plain):
                raise ValueError("a histogram ends in the middle of a counter")
            byte = plain[at]
            at += 1
            last = number == _LONGEST - 1
            rest |= (byte if last else byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or last:
                break
        value = (rest >> 1) ^ -(rest & 1)
        place += -value if value < 0 else 1
        if place > COUNTERS:
            raise ValueError("a histogram with too many counters")
        if value > 0:
            index.append(place - 1)
            count.append(value)
    return np.array(index, np.uint16), np.array(count, np.uint64)
