"""Geometry of the HDR histogram that the kernel fills: two significant digits, 1 ns to 2^37 - 1 ns.

The layout is HdrHistogram's own (sub-bucket count 256, unit magnitude 0), so a row of counters here is
the `counts` array of `hdrh.HdrHistogram(1, 2**37 - 1, 2)` and goes into its V2 payloads unchanged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SUB_BUCKET_BITS = 8
HALF = 1 << (SUB_BUCKET_BITS - 1)  # 128: sub-buckets added by each bucket after the first
HIGHEST_BITS = 37
HIGHEST_NS = (1 << HIGHEST_BITS) - 1
"""Longest duration told apart, in ns (137 s); longer ones are counted here and as clamped."""
COUNTERS = (HIGHEST_BITS - SUB_BUCKET_BITS + 2) * HALF
"""Counters in one histogram: 3,968."""


def index_of(value_ns: int) -> int:
    """Index of the counter of ``value_ns`` (ns; values above ``HIGHEST_NS`` go to the last one)."""
    value_ns = min(max(value_ns, 0), HIGHEST_NS)
    bucket = (value_ns | (2 * HALF - 1)).bit_length() - SUB_BUCKET_BITS
    return ((bucket + 1) << (SUB_BUCKET_BITS - 1)) + (value_ns >> bucket) - HALF


def indices_of(values_ns: NDArray[np.integer]) -> NDArray[np.int64]:
    """``index_of`` of every element of ``values_ns`` (any shape)."""
    value = np.minimum(np.asarray(values_ns, dtype=np.uint64), np.uint64(HIGHEST_NS)).astype(np.int64)
    # frexp gives the bit length: every value here is an exact float.
    bucket = np.frexp((value | (2 * HALF - 1)).astype(np.float64))[1].astype(np.int64) - SUB_BUCKET_BITS
    return np.asarray(((bucket + 1) << (SUB_BUCKET_BITS - 1)) + (value >> bucket) - HALF, dtype=np.int64)


def lowest_ns(indices: NDArray[np.integer]) -> NDArray[np.int64]:
    """Lowest duration (ns) counted at each of ``indices`` (any shape)."""
    index = np.asarray(indices, dtype=np.int64)
    bucket = np.maximum((index >> (SUB_BUCKET_BITS - 1)) - 1, 0)
    sub = np.where(index < 2 * HALF, index, (index & (HALF - 1)) + HALF)
    return np.asarray(sub << bucket, dtype=np.int64)


def highest_ns(indices: NDArray[np.integer]) -> NDArray[np.int64]:
    """Highest duration (ns) counted at each of ``indices`` (any shape): what HdrHistogram reports."""
    index = np.asarray(indices, dtype=np.int64)
    bucket = np.maximum((index >> (SUB_BUCKET_BITS - 1)) - 1, 0)
    return np.asarray(lowest_ns(index) + (np.int64(1) << bucket) - 1, dtype=np.int64)


HIGHEST_OF_INDEX: NDArray[np.int64] = highest_ns(np.arange(COUNTERS))
"""``highest_ns`` of every counter, shape (COUNTERS,)."""
HIGHEST_OF_INDEX.setflags(write=False)
