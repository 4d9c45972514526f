"""Differences between two windows, row by row: number and duration of calls, time lost, and significance.

**Time lost.** The time per second that is spent in calls, ``T = c m`` (number of calls per second times their
mean duration), changes for two reasons, and the two parts add up exactly:

    T_now - T_then = c_now (m_now - m_then)  +  (c_now - c_then) m_then
                     ``lost``: calls are slower  ``more``: there are more calls

Both parts are computed for each operation of a row and then added up. So a container whose mix of calls
shifts to longer operations has lost nothing. It does not matter which processes of a row make
the calls, so a restart of a program changes neither part.

A program that spends all its time in calls cannot spend more if each call takes twice as long: it makes half
as many calls. ``lost`` still shows the loss. Rows that only one of the windows has are new or gone: their
``lost`` is 0, and their whole time counts as ``more``.

**Significance.** The 95 % confidence interval of a percentile follows from the order statistics of n calls:
from the value of rank ``floor(n p - z s)`` to that of rank ``ceil(n p + z s) + 1``, with ``s = sqrt(n p (1 -
p))`` and z = 1.96 (J.-Y. Le Boudec, Performance Evaluation of Computer and Communication Systems, theorem
2.1; W. J. Conover, Practical Nonparametric Statistics, 3.2). The interval assumes that calls are independent;
it assumes nothing about the distribution of durations. If the lower rank is below 1 or the upper rank is
above n, the interval has no bound on that side, so the p99 of a hundred calls never changes significantly. A
change is significant if the intervals of the two windows do not overlap; for equal distributions that happens
about once in 180 times (N. Schenker, J. F. Gentleman, The American Statistician 55/3, 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stalltop.model.histograms.hdr import highest_ns, lowest_ns
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.rows.pivot import PERCENTS, Groups, pivot
from stalltop.model.window import Window

Z = 1.96
"""Number of standard deviations around the mean of a normal distribution that contain 95 % of it."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]
_Kind = tuple[int, str, str, bool]
"""Identifies the calls of one operation in one row: (row of the difference, layer, operation, ``nested``)."""


@dataclass(frozen=True, eq=False)
class ComparedSide:
    """One of the two windows of a difference: its groups, and which group belongs to which row."""

    window: Window
    groups: Groups
    at: Indices
    """For each row of the difference: the index of its group in ``groups``; -1 if the window lacks the
    row."""

    @property
    def seconds(self) -> float:
        """Length of the window in seconds."""
        return self.window.seconds if self.window.seconds > 0 else 1.0

    def of(self, column: NDArray[np.integer] | NDArray[np.floating]) -> Floats:
        """Returns the values of ``column``, a column of ``groups``, for the rows of the difference; NaN for
        rows that this window lacks."""
        if not len(column):
            return np.full(len(self.at), np.nan)
        return np.where(self.at >= 0, column[self.at].astype(np.float64), np.nan)

    @cached_property
    def calls_per_s(self) -> Floats:
        """Calls per second of each row; 0 for rows that this window lacks."""
        return np.nan_to_num(self.of(self.groups.calls)) / self.seconds

    @cached_property
    def ns_per_s(self) -> Floats:
        """Time in calls of each row, ns per second; 0 for rows that this window lacks."""
        return np.nan_to_num(self.of(self.groups.total_ns)) / self.seconds

    def kinds(self) -> dict[_Kind, tuple[int, int]]:
        """Returns (number of calls, their time in ns) for each operation of each row."""
        row_of_group = np.full(len(self.groups) + 1, -1)  # the last element is for group -1, no group
        here = np.flatnonzero(self.at >= 0)
        row_of_group[self.at[here]] = here
        rows = self.window.rows
        found: dict[_Kind, tuple[int, int]] = {}
        for key, row, calls, ns in zip(
            rows.keys,
            row_of_group[self.groups.group_of_row].tolist(),
            rows.calls.tolist(),
            rows.total_ns.tolist(),
            strict=True,
        ):
            if row >= 0 and calls:
                kind = row, key.layer, key.operation, key.nested
                before = found.get(kind, (0, 0))
                found[kind] = before[0] + calls, before[1] + ns
        return found


@dataclass(frozen=True, eq=False)
class Difference:
    """Columns of a comparison. Element i of every array belongs to row i of the difference."""

    then: ComparedSide
    now: ComparedSide

    @cached_property
    def new(self) -> Flags:
        """Rows that have calls now and had none then."""
        return np.asarray((self.then.calls_per_s == 0) & (self.now.calls_per_s > 0))

    @cached_property
    def gone(self) -> Flags:
        """Rows that had calls then and have none now."""
        return np.asarray((self.then.calls_per_s > 0) & (self.now.calls_per_s == 0))

    @cached_property
    def lost_ns_per_s(self) -> Floats:
        """Time lost because calls are slower, ns per second; negative if calls are faster, 0 in new and gone
        rows."""
        before = self.then.kinds()
        lost = np.zeros(len(self.now.at))
        for kind, (calls, ns) in self.now.kinds().items():
            if kind in before:
                calls_then, ns_then = before[kind]
                lost[kind[0]] += ns - calls * ns_then / calls_then
        return lost / self.now.seconds

    @cached_property
    def mean_ratio(self) -> Floats:
        """Time in calls now, divided by the time that as many calls of each operation would have taken then.
        ``lost_ns_per_s`` is the difference of these two times. NaN in new and gone rows."""
        now = self.now.ns_per_s
        then = np.where(self.new | self.gone, np.nan, now - self.lost_ns_per_s)
        ratio: Floats = np.divide(now, then, out=np.full(len(now), np.nan), where=then > 0)
        return ratio

    @cached_property
    def more_ns_per_s(self) -> Floats:
        """Time in additional calls, ns per second; negative if there are fewer calls. New rows have their
        whole time here, gone rows their whole time with a minus sign."""
        return self.now.ns_per_s - self.then.ns_per_s - self.lost_ns_per_s

    @cached_property
    def weight(self) -> Floats:
        """Importance of each row, ns per second: the absolute value of ``lost_ns_per_s``, or the whole time
        in new and gone rows."""
        return np.abs(np.where(self.new | self.gone, self.more_ns_per_s, self.lost_ns_per_s))

    @cached_property
    def between(self) -> Flags:
        """Rows of host gaps and host work, which are times between calls."""
        return self._either("between")

    @cached_property
    def nested(self) -> Flags:
        """Rows whose calls are all nested in other traced calls."""
        return self._either("nested")

    @cached_property
    def share(self) -> Floats:
        """``weight`` of each row divided by the sum of the weights of all rows of outermost calls; NaN for
        time between calls. So the shares of the rows of outermost calls add up to 1. Nested rows have shares,
        too, which are not part of this sum."""
        whole = float(self.weight[~(self.nested | self.between)].sum())
        share = self.weight / whole if whole else np.zeros(len(self.weight))
        return np.where(self.between, np.nan, share)

    @cached_property
    def p50_ratio(self) -> Floats:
        """Median now divided by median then; NaN if the row has no calls in one of the windows."""
        return self.ratio(50.0)

    @cached_property
    def p99_ratio(self) -> Floats:
        """p99 now divided by p99 then; NaN if the row has no calls in one of the windows."""
        return self.ratio(99.0)

    @cached_property
    def p50_sure(self) -> Flags:
        """Rows whose median changed significantly (see the module's docstring)."""
        return self.sure(50.0)

    @cached_property
    def p99_sure(self) -> Flags:
        """Rows whose p99 changed significantly (see the module's docstring)."""
        return self.sure(99.0)

    @cached_property
    def changed(self) -> Flags:
        """Rows that are new or gone, or whose median or p99 changed significantly."""
        return self.new | self.gone | self.p50_sure | self.p99_sure

    def _either(self, name: str) -> Flags:
        """Returns, for each row, True if its group has the flag ``name`` in at least one of the windows."""
        then, now = (
            side.of(getattr(side.groups, name).astype(np.uint64)) == 1 for side in (self.then, self.now)
        )
        return np.asarray(then | now)

    def ratio(self, percent: float) -> Floats:
        """Returns a percentile (one of ``pivot.PERCENTS``) of each row now, divided by that of the row then;
        NaN if the row has no calls in one of the windows."""
        column = PERCENTS.index(percent)
        then = self.then.of(self.then.groups.percentiles_ns[:, column])
        now = self.now.of(self.now.groups.percentiles_ns[:, column])
        here = ~(self.new | self.gone)
        return np.where(here, now, np.nan) / np.where(then > 0, then, np.nan)

    def sure(self, percent: float) -> Flags:
        """Returns the rows whose percentile changed significantly (see the module's docstring)."""
        then_low, then_high = of_rows(self.then, percent)
        now_low, now_high = of_rows(self.now, percent)
        return np.asarray((now_low > then_high) | (now_high < then_low))


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Two windows grouped by the same dimensions. The rows that the later window has come first, followed by
    the rows that are gone."""

    keys: tuple[tuple[str, ...], ...]
    labels: tuple[tuple[str, ...], ...]
    difference: Difference


def compare(then: Window, now: Window, by: Sequence[Dimension], *, all_rows: bool = False) -> Compared:
    """Compares two windows row by row. Both are grouped by ``model.rows.pivot.pivot`` with ``by`` and
    ``all_rows``."""
    pairs = [(window, pivot(window, by, all_rows=all_rows)) for window in (then, now)]
    labels: dict[tuple[str, ...], tuple[str, ...]] = {}
    for _, groups in reversed(pairs):
        for key, label in zip(groups.keys, groups.labels, strict=True):
            labels.setdefault(key, label)
    sides = [ComparedSide(window, groups, _found(tuple(labels), groups)) for window, groups in pairs]
    return Compared(tuple(labels), tuple(labels.values()), Difference(*sides))


def _found(keys: tuple[tuple[str, ...], ...], groups: Groups) -> Indices:
    index = {key: at for at, key in enumerate(groups.keys)}
    return np.array([index.get(key, -1) for key in keys], np.int64)


def interval_ns(histograms: Histograms, percent: float) -> tuple[Floats, Floats]:
    """Returns the lower and the upper bounds (ns) of the 95 % confidence intervals of a percentile, one
    interval for each histogram.

    If a histogram has too few values for a bound, its lower bound is 0, or its upper bound is infinity.
    """
    n = histograms.totals().astype(np.float64)
    p = percent / 100.0
    spread = Z * np.sqrt(n * p * (1.0 - p))
    first, last = np.floor(n * p - spread), np.ceil(n * p + spread) + 1
    most = np.maximum(n, 1.0)
    low = lowest_ns(histograms.reaching(np.clip(first, 1.0, most).astype(np.uint64)))
    high = highest_ns(histograms.reaching(np.clip(last, 1.0, most).astype(np.uint64)))
    return np.where(first >= 1, low, 0.0), np.where(last <= n, high, np.inf)


def of_rows(side: ComparedSide, percent: float) -> tuple[Floats, Floats]:
    """Returns the result of ``interval_ns`` for each row of the difference. Rows that the window lacks get
    (0, inf), which overlaps every interval."""
    low, high = interval_ns(side.groups.histograms, percent)
    if not len(low):
        return np.zeros(len(side.at)), np.full(len(side.at), np.inf)
    return np.where(side.at >= 0, low[side.at], 0.0), np.where(side.at >= 0, high[side.at], np.inf)
