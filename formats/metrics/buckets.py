"""Buckets of the histograms for Prometheus. Every edge is an edge of HDR counters, so each bucket has the
exact number of calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.model.histograms.hdr import HIGHEST_BITS, HIGHEST_OF_INDEX
from stalltop.model.histograms.histograms import Histograms

_LOWEST_BITS: Final = 10
"""The first bucket has the calls below 2^10 ns: a call into the CUDA driver takes about a microsecond or
more."""


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """A coarser division of durations than that of HDR histograms."""

    of_index: NDArray[np.int64]
    """Bucket of each HDR counter, shape (COUNTERS,)."""
    number: int
    """Number of buckets."""

    def counted(self, histograms: Histograms) -> NDArray[np.uint64]:
        """Returns how many values of each of n histograms are in each bucket (not in those below it), shape
        (n, number)."""
        counts = np.zeros((len(histograms), self.number), np.uint64)
        np.add.at(counts, (histograms.row_of_entry(), self.of_index[histograms.index]), histograms.count)
        return counts


EDGES_NS: Final = tuple((1 << bits) - 1 for bits in range(_LOWEST_BITS, HIGHEST_BITS))
"""Longest duration (ns) of each bucket but the last one, which has no edge. An edge is twice the one before,
as in Prometheus' native histograms of schema 0. An HDR counter never counts durations on both sides of a
power of two, and durations are whole nanoseconds, so "at most 1,023 ns" is exact."""
EDGES: Final = (*(repr(edge / 1e9) for edge in EDGES_NS), "+Inf")
"""Values of the label ``le``: the edges in seconds."""
POWERS: Final = Buckets(np.searchsorted(np.array(EDGES_NS), HIGHEST_OF_INDEX), len(EDGES))
"""These 28 buckets."""
