"""Buckets of the histograms for Prometheus. Every edge is an edge of HDR counters, so each bucket has the
exact number of calls."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.model.histograms.hdr import HIGHEST_BITS, HIGHEST_OF_INDEX
from stalltop.model.histograms.histograms import Histograms

_LOWEST_BITS: Final = 10
"""The first bucket has the calls below 2^10 ns: a call into the CUDA driver takes about a microsecond or
more."""
EDGES_NS: Final = tuple((1 << bits) - 1 for bits in range(_LOWEST_BITS, HIGHEST_BITS))
"""Longest duration (ns) of each bucket but the last one, which has no edge. An edge is twice the one before,
as in Prometheus' native histograms of schema 0. An HDR counter never counts durations on both sides of a
power of two, and durations are whole nanoseconds, so "at most 1,023 ns" is exact."""
BUCKETS: Final = len(EDGES_NS) + 1
"""Number of buckets of a histogram: 28."""
EDGES: Final = (*(repr(edge / 1e9) for edge in EDGES_NS), "+Inf")
"""Values of the label ``le``: the edges in seconds."""
_BUCKET_OF_INDEX: Final = np.searchsorted(np.array(EDGES_NS), HIGHEST_OF_INDEX)
"""Bucket of each HDR counter."""


def bucketed(histograms: Histograms) -> NDArray[np.uint64]:
    """Returns how many values of each of n histograms are in each bucket (not in those below it), shape
    (n, BUCKETS)."""
    counts = np.zeros((len(histograms), BUCKETS), np.uint64)
    np.add.at(counts, (histograms.row_of_entry(), _BUCKET_OF_INDEX[histograms.index]), histograms.count)
    return counts
