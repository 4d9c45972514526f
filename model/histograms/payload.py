"""HdrHistogram V2 compressed payloads: the form in which histograms leave this program.

Any HdrHistogram library reads them. The layout is the one of HdrHistogram's V2 encoding: a header,
zlib data, in it a second header and the counters as ZigZag LEB128 integers, where a negative number
stands for so many empty counters. What is decoded here may come from anywhere, so every size is checked.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_NS
from stalltop.model.histograms.histograms import Histograms

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
_WINDOW_BITS = 12
"""4 KiB of zlib's memory are enough for a few hundred bytes, and set up in half the time."""


def payloads(many: Histograms) -> list[bytes]:
    """The payload of each of the histograms ``many`` (counts below 2^63)."""
    counters, end = _counter_bytes(many)
    made = []
    at = 0
    for stop in end.tolist():
        part = counters[at:stop]
        at = stop
        deflate = zlib.compressobj(6, zlib.DEFLATED, _WINDOW_BITS, 5)
        header = _HEADER.pack(_PLAIN_COOKIE, len(part), 0, _DIGITS, 1, HIGHEST_NS, 1.0)
        packed = deflate.compress(header + part) + deflate.flush()
        made.append(_COMPRESSED.pack(_COMPRESSED_COOKIE, len(packed)) + packed)
    return made


def histograms(many: Sequence[bytes]) -> Histograms:
    """The histograms of ``many`` payloads. Raises ValueError where one is none, or has another geometry."""
    parts = [_inflated(payload) for payload in many]
    return _read(parts) if parts else Histograms.empty()


def _inflated(payload: bytes) -> bytes:
    """The counters' bytes."""
    try:
        cookie, length = _COMPRESSED.unpack_from(payload)
        if cookie != _COMPRESSED_COOKIE or length != len(payload) - _COMPRESSED.size:
            raise ValueError("no HdrHistogram V2 payload")
        inflate = zlib.decompressobj()
        plain = inflate.decompress(payload[_COMPRESSED.size :], _MOST_BYTES)
        if not inflate.eof or inflate.unused_data:
            raise ValueError("a histogram is cut off or too long")
        header = _HEADER.unpack_from(plain)
    except (struct.error, zlib.error) as error:
        raise ValueError(f"no HdrHistogram payload: {error}") from None
    if header != (_PLAIN_COOKIE, len(plain) - _HEADER.size, 0, _DIGITS, 1, HIGHEST_NS, 1.0):
        raise ValueError("a histogram of another geometry")
    return plain[_HEADER.size :]


def _counter_bytes(many: Histograms) -> tuple[bytes, NDArray[np.int64]]:
    """The counters of all histograms, one behind the other, and where those of each end."""
    n = len(many.index)
    before = np.empty(n, np.int64)
    before[1:] = many.index[:-1]
    first = many.start[:-1][np.diff(many.start) > 0]
    before[first] = -1
    # Before each counter so many empty ones as a negative number, where there are some: two columns.
    empty = many.index.astype(np.int64) - before - 1
    numbers = np.empty((n, 2), np.uint64)
    numbers[:, 0] = np.where(empty > 0, 2 * empty - 1, 0)
    numbers[:, 1] = many.count << np.uint64(1)
    number = numbers.reshape(-1)
    length = np.ones(2 * n, np.int64)
    for byte in range(1, _LONGEST):
        length += number >= np.uint64(1 << 7 * byte)
    length[0::2][empty == 0] = 0
    end = np.cumsum(length)
    data = np.zeros(int(end[-1]) if n else 0, np.uint8)
    start = end - length
    for byte in range(int(length.max()) if n else 0):
        some = np.flatnonzero(length > byte)
        bits = number[some] >> np.uint64(7 * byte)
        if byte < _LONGEST - 1:
            bits &= np.uint64(0x7F)
            bits[length[some] > byte + 1] |= np.uint64(0x80)
        data[start[some] + byte] = bits
    ends = np.concatenate((np.zeros(1, np.int64), end))[2 * many.start[1:]]
    return data.tobytes(), ends


def _read(parts: Sequence[bytes]) -> Histograms:
    """The histograms of these counters."""
    data = np.frombuffer(b"".join(parts), np.uint8)
    if not len(data):
        return Histograms.empty(len(parts))
    if any(part and part[-1] >= 0x80 for part in parts):
        return _read_slowly(parts)
    stop = np.flatnonzero(data < 0x80)
    start = np.concatenate((np.zeros(1, np.int64), stop[:-1] + 1))
    length = stop + 1 - start
    if length.max() >= _LONGEST:
        return _read_slowly(parts)
    value = np.zeros(len(stop), np.uint64)
    for byte in range(int(length.max())):
        some = np.flatnonzero(length > byte)
        bits = (data[start[some] + byte] & 0x7F).astype(np.uint64)
        value[some] |= bits << np.uint64(7 * byte)
    skips = (value & np.uint64(1)).astype(bool)
    value >>= np.uint64(1)
    if np.any(value[skips] >= COUNTERS):
        raise ValueError("a histogram with too many counters")
    step = np.where(skips, value + np.uint64(1), np.uint64(1)).astype(np.int64)
    reached = np.concatenate((np.zeros(1, np.int64), np.cumsum(step)))
    ends = np.cumsum([0, *(len(part) for part in parts)])
    bounds = np.searchsorted(start, ends)
    place = reached[1:] - np.repeat(reached[bounds[:-1]], np.diff(bounds))
    if place.max() > COUNTERS:
        raise ValueError("a histogram with too many counters")
    kept = np.flatnonzero(~skips & (value > 0))
    entries = np.searchsorted(kept, bounds)
    return Histograms(entries.astype(np.int64), (place[kept] - 1).astype(np.uint16), value[kept])


def _read_slowly(parts: Sequence[bytes]) -> Histograms:
    """The same, with integers of any length: there are counts of 2^55 and more, or something is wrong."""
    found = [_counters(part) for part in parts]
    start = np.cumsum([0, *(len(index) for index, _ in found)], dtype=np.int64)
    return Histograms(
        start, np.concatenate([index for index, _ in found]), np.concatenate([count for _, count in found])
    )


def _counters(plain: bytes) -> tuple[NDArray[np.uint16], NDArray[np.uint64]]:
    index: list[int] = []
    count: list[int] = []
    place = at = 0
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
