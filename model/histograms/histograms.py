"""Many HDR histograms held sparsely, and their percentiles by numpy.

A window of 400 rows would take 6 MB with every counter written out; few counters are ever hit, so the
histograms are kept as compressed rows: for row i, counters ``index[start[i]:start[i+1]]`` hold
``count[start[i]:start[i+1]]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_OF_INDEX, lowest_ns

_GROUPS_AT_ONCE = 64
"""Sums that are worked on together: spread out they take 2 MiB, which stay in the CPU's cache."""
_DENSE_SHARE = 32
"""Adding up spreads the counters out where they are at most so many times as many as the entries: else it
sorts the entries."""


@dataclass(frozen=True, slots=True, eq=False)
class Histograms:
    """n histograms. Within a row, indices rise and counts are above zero."""

    start: NDArray[np.int64]
    """Shape (n + 1,)."""
    index: NDArray[np.uint16]
    count: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.start) - 1

    @staticmethod
    def empty(n: int = 0) -> Histograms:
        """``n`` histograms without a single value."""
        return Histograms(np.zeros(n + 1, np.int64), np.zeros(0, np.uint16), np.zeros(0, np.uint64))

    @staticmethod
    def from_dense(dense: NDArray[np.integer]) -> Histograms:
        """From counters of shape (n, COUNTERS), any integer type."""
        if dense.ndim != 2 or dense.shape[1] != COUNTERS:
            raise ValueError(f"expected shape (n, {COUNTERS}), got {dense.shape}")
        # Through one dimension of truth values: several times as fast as np.nonzero of the counters.
        place = np.flatnonzero(dense != 0)
        row, index = np.divmod(place, COUNTERS)
        start = np.zeros(len(dense) + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=len(dense)), out=start[1:])
        return Histograms(start, index.astype(np.uint16), dense.reshape(-1)[place].astype(np.uint64))

    @staticmethod
    def concatenate(parts: Sequence[Histograms]) -> Histograms:
        """The rows of all ``parts``, one below the other."""
        lengths = [np.diff(part.start) for part in parts]
        start = np.concatenate((np.zeros(1, np.int64), *lengths)).cumsum()
        index = np.concatenate([np.zeros(0, np.uint16), *(part.index for part in parts)])
        count = np.concatenate([np.zeros(0, np.uint64), *(part.count for part in parts)])
        return Histograms(start, index, count)

    def row_of_entry(self) -> NDArray[np.int64]:
        """The row that each entry of ``index`` and ``count`` belongs to, shape (entries,)."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.start))

    def dense(self) -> NDArray[np.uint64]:
        """All counters, shape (n, COUNTERS)."""
        counters = np.zeros((len(self), COUNTERS), np.uint64)
        counters[self.row_of_entry(), self.index] = self.count
        return counters

    def totals(self) -> NDArray[np.uint64]:
        """Values counted in each row, shape (n,)."""
        running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(self.count, dtype=np.uint64)))
        return np.asarray(np.diff(running[self.start]), dtype=np.uint64)

    def grouped(self, group: NDArray[np.integer], groups: int) -> Histograms:
        """Rows added up by ``group`` (shape (n,), values 0 to groups - 1, or -1 to leave a row out).

        Counts add modulo 2^64, so adding a row of negated counts takes it away again.
        """
        order = np.argsort(group, kind="stable")
        if len(group) == groups and np.array_equal(group[order], np.arange(groups)):
            return self.take(order)  # each row is a group of its own
        row_group: NDArray[np.int64] = np.asarray(group, dtype=np.int64)[order]
        kept = slice(int(np.searchsorted(row_group, 0)), None)
        rows, row_group = self.take(order[kept]), row_group[kept]
        parts = []
        for first in range(0, groups, _GROUPS_AT_ONCE):
            some = min(_GROUPS_AT_ONCE, groups - first)
            begin, end = np.searchsorted(row_group, (first, first + some))
            entries = slice(rows.start[begin], rows.start[end])
            row: NDArray[np.int64] = np.repeat(
                row_group[begin:end] - first, np.diff(rows.start[begin : end + 1])
            )
            parts.append(_summed(row * COUNTERS + rows.index[entries], rows.count[entries], some))
        return Histograms.concatenate(parts)

    def take(self, rows: NDArray[np.integer]) -> Histograms:
        """The histograms of ``rows`` (indices, any order), in that order."""
        length = np.diff(self.start)[rows]
        start = np.concatenate((np.zeros(1, np.int64), np.cumsum(length)))
        entry = np.arange(start[-1]) - np.repeat(start[:-1] - self.start[:-1][rows], length)
        return Histograms(start.astype(np.int64), self.index[entry], self.count[entry])

    def percentiles(self, percents: Sequence[float]) -> NDArray[np.int64]:
        """Values (ns) at ``percents`` (0 to 100) of every row, shape (n, len(percents)); 0 in an empty row.

        Equal to ``hdrh``'s get_value_at_percentile on the same counts, for percents given as floats: the
        highest duration that the counter reached stands for (the lowest for 0 percent), where the count
        to reach is int(percent * total / 100 + 0.5), at least 1 and (beyond 2^52 calls floats may round up;
        ``hdrh`` then finds nothing) at most the total.
        """
        totals = self.totals()
        result = np.zeros((len(self), len(percents)), np.int64)
        most = np.maximum(totals, 1)
        for column, percent in enumerate(percents):
            wanted = np.floor(min(max(percent, 0.0), 100.0) * totals.astype(np.float64) / 100.0 + 0.5)
            # A float may round above the total, and above what an integer holds.
            reached = np.where(wanted >= totals, most, np.clip(wanted, 1, 2.0**63).astype(np.uint64))
            index = self.reaching(reached)
            value = HIGHEST_OF_INDEX[index] if percent else lowest_ns(index)
            result[:, column] = np.where(totals > 0, value, 0)
        return result

    def reaching(self, ranks: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Index of the counter that holds, in each row, the value of that rank from the least, shape (n,).

        ``ranks`` are 1 to the row's total; what an empty row gives means nothing.
        """
        if not len(self.index):
            return np.zeros(len(self), np.int64)
        running = np.cumsum(self.count, dtype=np.uint64)
        before = np.concatenate((np.zeros(1, np.uint64), running))[self.start[:-1]]
        entry = np.minimum(np.searchsorted(running, before + ranks), len(self.index) - 1)
        return self.index[entry].astype(np.int64)


def _summed(place: NDArray[np.int64], count: NDArray[np.uint64], rows: int) -> Histograms:
    """Counts added up by ``place`` (row x COUNTERS + index) as ``rows`` histograms."""
    cells = rows * COUNTERS
    if cells <= _DENSE_SHARE * len(place):
        sums = np.zeros(cells, np.uint64)
        np.add.at(sums, place, count)
        places = np.flatnonzero(sums != 0)
        sums = sums[places]
    else:
        places, inverse = np.unique(place, return_inverse=True)
        sums = np.zeros(len(places), np.uint64)
        np.add.at(sums, inverse, count)
        places, sums = places[sums != 0], sums[sums != 0]
    start = np.searchsorted(places, np.arange(rows + 1, dtype=np.int64) * COUNTERS).astype(np.int64)
    return Histograms(start, (places % COUNTERS).astype(np.uint16), sums)
