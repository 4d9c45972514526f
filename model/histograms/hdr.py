"""Geometry of the HDR histograms that the BPF programs fill: two significant digits, 1 ns to 2^37 - 1 ns.

The layout is that of HdrHistogram (sub-bucket count 256, unit magnitude 0): the counters of one histogram
equal the ``counts`` array of ``hdrh.HdrHistogram(1, 2**37 - 1, 2)``, and its V2 payloads contain them
unchanged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SUB_BUCKET_BITS = 8
HALF = 1 << (SUB_BUCKET_BITS - 1)  # 128: number of sub-buckets that each bucket after the first one adds
HIGHEST_BITS = 37
HIGHEST_NS = (1 << HIGHEST_BITS) - 1
"""Longest duration that the histograms can hold, in ns (137 s). A longer call is counted with this duration,
and also in the loss ``clamped``."""
COUNTERS = (HIGHEST_BITS - SUB_BUCKET_BITS + 2) * HALF
"""Number of counters in one histogram: 3,968."""


def index_of(value_ns: int) -> int:
    """Returns the index of the counter that counts ``value_ns``; the last index for values above
    ``HIGHEST_NS``."""
    value_ns = min(max(value_ns, 0), HIGHEST_NS)
    bucket = (value_ns | (2 * HALF - 1)).bit_length() - SUB_BUCKET_BITS
    return ((bucket + 1) << (SUB_BUCKET_BITS - 1)) + (value_ns >> bucket) - HALF


def indices_of(values_ns: NDArray[np.integer]) -> NDArray[np.int64]:
    """Returns ``index_of`` of every element of ``values_ns`` (any shape)."""
    value = np.minimum(np.asarray(values_ns, dtype=np.uint64), np.uint64(HIGHEST_NS)).astype(np.int64)
    # frexp yields the bit length, because a float represents every value below 2^53 exactly.
    bucket = np.frexp((value | (2 * HALF - 1)).astype(np.float64))[1].astype(np.int64) - SUB_BUCKET_BITS
    return np.asarray(((bucket + 1) << (SUB_BUCKET_BITS - 1)) + (value >> bucket) - HALF, dtype=np.int64)


def lowest_ns(indices: NDArray[np.integer]) -> NDArray[np.int64]:
    """Returns the lowest duration (ns) that the counters at ``indices`` (any shape) count."""
    index = np.asarray(indices, dtype=np.int64)
    bucket = np.maximum((index >> (SUB_BUCKET_BITS - 1)) - 1, 0)
    sub = np.where(index < 2 * HALF, index, (index & (HALF - 1)) + HALF)
    return np.asarray(sub << bucket, dtype=np.int64)


def highest_ns(indices: NDArray[np.integer]) -> NDArray[np.int64]:
    """Returns the highest duration (ns) that the counters at ``indices`` (any shape) count, which is also
    the duration that HdrHistogram reports for these counters."""
    index = np.asarray(indices, dtype=np.int64)
    bucket = np.maximum((index >> (SUB_BUCKET_BITS - 1)) - 1, 0)
    return np.asarray(lowest_ns(index) + (np.int64(1) << bucket) - 1, dtype=np.int64)


HIGHEST_OF_INDEX: NDArray[np.int64] = highest_ns(np.arange(COUNTERS))
"""``highest_ns`` of every counter, shape (COUNTERS,)."""
HIGHEST_OF_INDEX.setflags(write=False)
