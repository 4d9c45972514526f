"""HdrHistogram V2 compressed payloads: the format of histograms in files and JSON.

Any HdrHistogram library reads these payloads. A payload consists of a header and zlib data. The zlib data
consist of a second header and the counters as ZigZag LEB128 integers, where a negative number -n stands for n
counters that are zero. Counts must be below 2^55 (a billion calls a second for a year). Every integer then
has at most 8 bytes, and numpy can find the ends of all integers at once. Payloads to decode may come from an
untrusted file, so every size is checked.
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
"""Outer header: cookie, length of the compressed data."""
_HEADER = struct.Struct(">iiiiqqd")
"""Inner header: cookie, length of the encoded counters in bytes, index offset, number of significant digits,
lowest value, highest value, conversion ratio."""
_COMPRESSED_COOKIE = 0x1C849304 | 0x10
_PLAIN_COOKIE = 0x1C849303 | 0x10
_DIGITS = 2
_LONGEST = 8
"""Maximum length of an integer in bytes. The format also has integers of nine bytes. Their last byte has no
continuation bit, so numpy could not find their ends."""
_MOST_BYTES = _HEADER.size + COUNTERS * _LONGEST
_WINDOW_BITS = 12
"""Size of the zlib window as a power of 2: 4 KiB are enough for payloads of a few hundred bytes, and take
half as long to set up as zlib's default of 32 KiB."""


def payloads(many: Histograms) -> list[bytes]:
    """Encodes ``many`` histograms, one payload for each; counts must be below 2^55."""
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
    """Decodes payloads. Raises ValueError if a payload is damaged, or if its histogram has another range or
    precision than those of ``model.histograms.hdr``."""
    parts = [_inflated(payload) for payload in many]
    return _read(parts) if parts else Histograms.empty()


def _inflated(payload: bytes) -> bytes:
    """Decompresses a payload, checks its headers, and returns the bytes of the counters."""
    try:
        cookie, length = _COMPRESSED.unpack_from(payload)
        if cookie != _COMPRESSED_COOKIE or length != len(payload) - _COMPRESSED.size:
            raise ValueError("not an HdrHistogram V2 payload")
        inflate = zlib.decompressobj()
        plain = inflate.decompress(payload[_COMPRESSED.size :], _MOST_BYTES)
        if not inflate.eof or inflate.unused_data:
            raise ValueError("a histogram payload is truncated or too long")
        header = _HEADER.unpack_from(plain)
    except (struct.error, zlib.error) as error:
        raise ValueError(f"not an HdrHistogram payload: {error}") from None
    if header != (_PLAIN_COOKIE, len(plain) - _HEADER.size, 0, _DIGITS, 1, HIGHEST_NS, 1.0):
        raise ValueError("a histogram has another range or precision than 1 ns to 137 s, two digits")
    return plain[_HEADER.size :]


def _counter_bytes(many: Histograms) -> tuple[bytes, NDArray[np.int64]]:
    """Encodes the counters of all histograms one after the other. Returns the bytes, and the end of each
    histogram as an offset in the bytes."""
    n = len(many.index)
    before = np.empty(n, np.int64)
    before[1:] = many.index[:-1]
    first = many.start[:-1][np.diff(many.start) > 0]
    before[first] = -1
    # ``numbers`` has two columns. First: the number of zero counters before each counter, as a negative
    # ZigZag integer (if there are none, 0, which is not written). Second: the value of the counter.
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
        bits = number[some] >> np.uint64(7 * byte) & np.uint64(0x7F)
        bits[length[some] > byte + 1] |= np.uint64(0x80)
        data[start[some] + byte] = bits
    ends = np.concatenate((np.zeros(1, np.int64), end))[2 * many.start[1:]]
    return data.tobytes(), ends


def _read(parts: Sequence[bytes]) -> Histograms:
    """Decodes the counters of several histograms with numpy, from the bytes that ``_inflated`` returns."""
    data = np.frombuffer(b"".join(parts), np.uint8)
    if not len(data):
        return Histograms.empty(len(parts))
    if any(part and part[-1] >= 0x80 for part in parts):
        raise ValueError("a histogram payload ends in the middle of a counter")
    stop = np.flatnonzero(data < 0x80)
    start = np.concatenate((np.zeros(1, np.int64), stop[:-1] + 1))
    length = stop + 1 - start
    if length.max() > _LONGEST:
        raise ValueError("a histogram has a count of 2^55 or more")
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
