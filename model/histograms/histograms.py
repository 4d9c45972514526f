"""Many HDR histograms in sparse arrays, with percentiles computed by numpy.

All counters of a window of 400 rows would take 13 MB. Most counters are zero, so histograms are stored as
compressed sparse rows: in row i, the counters ``index[start[i]:start[i+1]]`` have the values
``count[start[i]:start[i+1]]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_OF_INDEX, lowest_ns

_GROUPS_AT_ONCE = 64
"""Number of groups summed at a time. The dense counters of 64 groups take 2 MiB, which fit into a CPU's
cache."""
_DENSE_SHARE = 12
"""Entries are added into a dense array if the array has at most this many counters per entry. Otherwise they
are sorted."""


@dataclass(frozen=True, slots=True, eq=False)
class Histograms:
    """n histograms in compressed sparse rows, one histogram per row. Within a row, indices ascend and counts
    are above zero."""

    start: NDArray[np.int64]
    """Where each row begins in ``index`` and ``count``, and where the last row ends; shape (n + 1,)."""
    index: NDArray[np.uint16]
    count: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.start) - 1

    @staticmethod
    def empty(n: int = 0) -> Histograms:
        """Returns ``n`` histograms without values."""
        return Histograms(np.zeros(n + 1, np.int64), np.zeros(0, np.uint16), np.zeros(0, np.uint64))

    @staticmethod
    def from_dense(dense: NDArray[np.integer]) -> Histograms:
        """Converts ``dense``, the counters of n histograms, of shape (n, COUNTERS) and any integer type."""
        if dense.ndim != 2 or dense.shape[1] != COUNTERS:
            raise ValueError(f"expected shape (n, {COUNTERS}), got {dense.shape}")
        # np.flatnonzero of an array of booleans is several times as fast as np.nonzero of the counters.
        place = np.flatnonzero(dense != 0)
        row, index = np.divmod(place, COUNTERS)
        start = np.zeros(len(dense) + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=len(dense)), out=start[1:])
        return Histograms(start, index.astype(np.uint16), dense.reshape(-1)[place].astype(np.uint64))

    @staticmethod
    def concatenate(parts: Sequence[Histograms]) -> Histograms:
        """Returns the rows of all ``parts`` in order."""
        lengths = [np.diff(part.start) for part in parts]
        start = np.concatenate((np.zeros(1, np.int64), *lengths)).cumsum()
        index = np.concatenate([np.zeros(0, np.uint16), *(part.index for part in parts)])
        count = np.concatenate([np.zeros(0, np.uint64), *(part.count for part in parts)])
        return Histograms(start, index, count)

    def row_of_entry(self) -> NDArray[np.int64]:
        """Returns the row of each entry of ``index`` and ``count``, shape (entries,)."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.start))

    def dense(self) -> NDArray[np.uint64]:
        """Returns all counters, zeros included, shape (n, COUNTERS)."""
        counters = np.zeros((len(self), COUNTERS), np.uint64)
        counters[self.row_of_entry(), self.index] = self.count
        return counters

    def totals(self) -> NDArray[np.uint64]:
        """Returns the number of values in each row, shape (n,)."""
        return np.asarray(np.diff(self._running()[self.start]), dtype=np.uint64)

    def grouped(self, group: NDArray[np.integer], groups: int) -> Histograms:
        """Adds up the rows of each group. Returns ``groups`` histograms, one for each group.

        ``group`` has the group of each row: shape (n,), values 0 to ``groups`` - 1, or -1 to leave a row out.
        Counts add modulo 2^64, so a row of negated counts is subtracted.
        """
        order = np.argsort(group, kind="stable")
        if len(group) == groups and np.array_equal(group[order], np.arange(groups)):
            return self.take(order)  # every group has one row
        if groups * COUNTERS > _DENSE_SHARE * len(self.index):
            return self._sorted(group, groups)
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

    def _sorted(self, group: NDArray[np.integer], groups: int) -> Histograms:
        """Returns the result of ``grouped``, by sorting the entries by group and counter."""
        kept = np.flatnonzero(group >= 0)
        rows = self if len(kept) == len(self) else self.take(kept)
        kind = np.int32 if groups * COUNTERS < np.iinfo(np.int32).max else np.int64
        place = np.repeat((group[kept] * COUNTERS).astype(kind), np.diff(rows.start)) + rows.index
        # The entries of a row, and those of successive windows with equal rows, are in order already. A
        # stable sort merges such runs.
        order = np.argsort(place, kind="stable")
        place = place[order]
        first = np.flatnonzero(np.concatenate((np.ones(min(len(place), 1), np.bool_), np.diff(place) != 0)))
        count = np.add.reduceat(rows.count[order], first) if len(first) else rows.count
        return _of_places(place[first], count, groups)

    def take(self, rows: NDArray[np.integer]) -> Histograms:
        """Returns the histograms at the indices ``rows``, in that order."""
        length = np.diff(self.start)[rows]
        start = np.concatenate((np.zeros(1, np.int64), np.cumsum(length)))
        entry = np.arange(start[-1]) - np.repeat(start[:-1] - self.start[:-1][rows], length)
        return Histograms(start.astype(np.int64), self.index[entry], self.count[entry])

    def percentiles(self, percents: Sequence[float]) -> NDArray[np.int64]:
        """Returns the values (ns) at ``percents`` (0 to 100) of each row, shape (n, len(percents)); 0 for
        rows without values.

        The result equals that of ``hdrh``'s get_value_at_percentile for the same counts: the highest duration
        (for 0 percent the lowest duration) of the counter that counts the value of rank int(percent * total /
        100 + 0.5). Unlike in ``hdrh``, the rank is at least 1 and at most the total: from 2^52 calls on, the
        rank may be rounded above the total, and ``hdrh`` then finds no value.
        """
        running = self._running()
        before = running[self.start[:-1]]
        totals = running[self.start[1:]] - before
        shares = np.clip(np.array(percents, np.float64), 0.0, 100.0)
        wanted = np.floor(shares * totals.astype(np.float64)[:, None] / 100.0 + 0.5)
        # ``wanted`` is a float: it may be rounded above the total, and above the range of uint64.
        most = np.maximum(totals, 1)[:, None]
        ranks = np.where(wanted >= totals[:, None], most, np.clip(wanted, 1, 2.0**63).astype(np.uint64))
        index = self._reaching(running, before[:, None] + ranks)
        values = np.where(shares > 0, HIGHEST_OF_INDEX[index], lowest_ns(index))
        return np.where(totals[:, None] > 0, values, 0)

    def reaching(self, ranks: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Returns, for each row, the index of the counter that counts the value of this rank; ``ranks`` has
        the rank of each row.

        ``ranks`` and the result have shape (n,). Rank 1 is the lowest value of a row; a rank must not exceed
        the row's total. The result is undefined for rows without values.
        """
        running = self._running()
        return self._reaching(running, running[self.start[:-1]] + ranks)

    def _running(self) -> NDArray[np.uint64]:
        """Returns the number of values in all entries before each entry, and in all entries."""
        running = np.zeros(len(self.count) + 1, np.uint64)
        np.cumsum(self.count, dtype=np.uint64, out=running[1:])
        return running

    def _reaching(self, running: NDArray[np.uint64], ranks: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Returns the index of the counter that counts the value of each of ``ranks``, which are counted from
        the first row on. ``running`` is the result of ``_running``."""
        if not len(self.index):
            return np.zeros(ranks.shape, np.int64)
        entry = np.minimum(np.searchsorted(running[1:], ranks), len(self.index) - 1)
        return self.index[entry].astype(np.int64)


def _summed(place: NDArray[np.int64], count: NDArray[np.uint64], rows: int) -> Histograms:
    """Adds up the entries of ``count`` into ``rows`` histograms. ``place`` has the target of each entry: row
    * COUNTERS + index."""
    sums = np.zeros(rows * COUNTERS, np.uint64)
    np.add.at(sums, place, count)
    places = np.flatnonzero(sums != 0)
    return _of_places(places, sums[places], rows)


def _of_places(place: NDArray[np.integer], count: NDArray[np.uint64], rows: int) -> Histograms:
    """Returns ``rows`` histograms with the values ``count`` at the places ``place`` (row * COUNTERS + index),
    which ascend; without those that are 0."""
    if not count.all():
        place, count = place[count != 0], count[count != 0]
    start = np.searchsorted(place, np.arange(rows + 1, dtype=place.dtype) * COUNTERS)
    return Histograms(start.astype(np.int64), (place % COUNTERS).astype(np.uint16), count)
