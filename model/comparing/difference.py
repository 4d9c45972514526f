"""What changed between two windows, row by row: how many calls, how long, how much time was lost to that, and
how sure it is.

**Time lost.** Time in calls a second, ``T = c m`` (calls a second times their mean duration), changes for two
reasons, and the parts add up exactly:

    T_now - T_then = c_now (m_now - m_then)  +  (c_now - c_then) m_then
                     ``lost``: calls are slower  ``more``: there are more of them

That is worked out for each operation of a row by itself and then added up, so that a container that merely
makes more of its long calls has lost nothing; processes that came and went in between make no difference.

A program that waits all the time, in calls twice as long of which it then makes half as many, spends no more
time in them; ``lost`` says all the same what it lost. Rows that are only in one window are new or gone:
nothing is lost in them, their whole time counts as ``more``.

**How sure.** The 95 % confidence interval of a percentile from the order statistics of n calls: the value of
rank ``floor(n p - z s)`` to that of rank ``ceil(n p + z s) + 1``, with ``s = sqrt(n p (1 - p))`` and z = 1.96
(J.-Y. Le Boudec, Performance Evaluation of Computer and Communication Systems, theorem 2.1; W. J. Conover,
Practical Nonparametric Statistics, 3.2). It assumes no shape of the distribution, only that calls are
independent; a rank below the first or above the last call leaves that side open, so a p99 of a hundred calls
is never sure. A percentile has surely changed where its two intervals do not overlap, which happens by chance
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
from stalltop.model.rows.pivot import PERCENTS, Dimension, Groups, pivot
from stalltop.model.window import Window

Z = 1.96
"""Standard deviations on either side that hold 95 % of a normal distribution."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]
_Kind = tuple[int, str, str, bool]
"""Row, layer, operation, and whether it is nested."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two windows, its groups, and where each row is among them."""

    window: Window
    """What was grouped."""
    groups: Groups
    at: Indices
    """Index into ``groups`` of each row, -1 where it is not there."""

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return self.window.seconds if self.window.seconds > 0 else 1.0

    def of(self, column: NDArray[np.integer] | NDArray[np.floating]) -> Floats:
        """A column of ``groups`` for each row; NaN where it is not there."""
        if not len(column):
            return np.full(len(self.at), np.nan)
        return np.where(self.at >= 0, column[self.at].astype(np.float64), np.nan)

    @cached_property
    def calls_per_s(self) -> Floats:
        """Calls a second; 0 where the row is not there."""
        return np.nan_to_num(self.of(self.groups.calls)) / self.seconds

    @cached_property
    def ns_per_s(self) -> Floats:
        """Time in calls, ns a second; 0 where the row is not there."""
        return np.nan_to_num(self.of(self.groups.total_ns)) / self.seconds

    def kinds(self) -> dict[_Kind, tuple[int, int]]:
        """Calls and their time (ns) of each operation of each row."""
        row_of_group = np.full(len(self.groups) + 1, -1)  # the last one: of what is in no group
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
    """What changed: element i of every array belongs to row i of both sides."""

    then: Side
    now: Side

    @cached_property
    def new(self) -> Flags:
        """Rows without a call then, and with some now."""
        return np.asarray((self.then.calls_per_s == 0) & (self.now.calls_per_s > 0))

    @cached_property
    def gone(self) -> Flags:
        """Rows with calls then, and without any now."""
        return np.asarray((self.then.calls_per_s > 0) & (self.now.calls_per_s == 0))

    @cached_property
    def lost_ns_per_s(self) -> Floats:
        """Time lost to calls that take longer, ns a second; negative: won. 0 in rows that are new or gone."""
        before = self.then.kinds()
        lost = np.zeros(len(self.now.at))
        for kind, (calls, ns) in self.now.kinds().items():
            if kind in before:
                calls_then, ns_then = before[kind]
                lost[kind[0]] += ns - calls * ns_then / calls_then
        return lost / self.now.seconds

    @cached_property
    def more_ns_per_s(self) -> Floats:
        """Time that more calls take, ns a second; negative: fewer. Of new and gone rows, all their time."""
        return self.now.ns_per_s - self.then.ns_per_s - self.lost_ns_per_s

    @cached_property
    def weight(self) -> Floats:
        """How much a row matters, ns a second: what it lost or won; all its time where it is new or gone."""
        return np.abs(np.where(self.new | self.gone, self.more_ns_per_s, self.lost_ns_per_s))

    @cached_property
    def between(self) -> Flags:
        """Rows that are no calls but the time between them."""
        return self._either("between")

    @cached_property
    def nested(self) -> Flags:
        """Rows whose calls were all made inside other traced calls."""
        return self._either("nested")

    @cached_property
    def share(self) -> Floats:
        """Part of all change in calls, 0 to 1, by ``weight``; NaN for time between calls. Calls within other
        calls come on top of the whole."""
        whole = float(self.weight[~(self.nested | self.between)].sum())
        share = self.weight / whole if whole else np.zeros(len(self.weight))
        return np.where(self.between, np.nan, share)

    @cached_property
    def p50_ratio(self) -> Floats:
        """The median now against then; NaN where a row has no calls on both sides."""
        return self.ratio(50.0)

    @cached_property
    def p99_ratio(self) -> Floats:
        """The same of the p99."""
        return self.ratio(99.0)

    @cached_property
    def p50_sure(self) -> Flags:
        """Rows whose median has changed beyond what chance explains: see above."""
        return self.sure(50.0)

    @cached_property
    def p99_sure(self) -> Flags:
        """The same of the p99."""
        return self.sure(99.0)

    @cached_property
    def changed(self) -> Flags:
        """Rows that surely changed: new or gone, or in their median or their p99."""
        return self.new | self.gone | self.p50_sure | self.p99_sure

    def _either(self, name: str) -> Flags:
        """A flag of groups, by row: where it is set on one side."""
        then, now = (
            side.of(getattr(side.groups, name).astype(np.uint64)) == 1 for side in (self.then, self.now)
        )
        return np.asarray(then | now)

    def ratio(self, percent: float) -> Floats:
        """One of ``pivot.PERCENTS`` now against then; NaN where a row has no calls on both sides."""
        column = PERCENTS.index(percent)
        then = self.then.of(self.then.groups.percentiles_ns[:, column])
        now = self.now.of(self.now.groups.percentiles_ns[:, column])
        here = ~(self.new | self.gone)
        return np.where(here, now, np.nan) / np.where(then > 0, then, np.nan)

    def sure(self, percent: float) -> Flags:
        """Rows in which it has changed beyond what chance explains: see above."""
        then_low, then_high = of_rows(self.then, percent)
        now_low, now_high = of_rows(self.now, percent)
        return np.asarray((now_low > then_high) | (now_high < then_low))


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Two groupings by the same dimensions, row by row: those of now, then those that are gone."""

    keys: tuple[tuple[str, ...], ...]
    labels: tuple[tuple[str, ...], ...]
    difference: Difference


def compare(then: Window, now: Window, by: Sequence[Dimension], *, all_rows: bool = False) -> Compared:
    """What changed from ``then`` to ``now``, grouped as by ``model.rows.pivot.pivot``."""
    pairs = [(window, pivot(window, by, all_rows=all_rows)) for window in (then, now)]
    labels: dict[tuple[str, ...], tuple[str, ...]] = {}
    for _, groups in reversed(pairs):
        for key, label in zip(groups.keys, groups.labels, strict=True):
            labels.setdefault(key, label)
    sides = [Side(window, groups, _found(tuple(labels), groups)) for window, groups in pairs]
    return Compared(tuple(labels), tuple(labels.values()), Difference(*sides))


def _found(keys: tuple[tuple[str, ...], ...], groups: Groups) -> Indices:
    index = {key: at for at, key in enumerate(groups.keys)}
    return np.array([index.get(key, -1) for key in keys], np.int64)


def interval_ns(histograms: Histograms, percent: float) -> tuple[Floats, Floats]:
    """The least and the most (ns) that a percentile of each row may be, with 95 % confidence.

    0 and infinity where so few values say nothing about that side.
    """
    n = histograms.totals().astype(np.float64)
    p = percent / 100.0
    spread = Z * np.sqrt(n * p * (1.0 - p))
    first, last = np.floor(n * p - spread), np.ceil(n * p + spread) + 1
    most = np.maximum(n, 1.0)
    low = lowest_ns(histograms.reaching(np.clip(first, 1.0, most).astype(np.uint64)))
    high = highest_ns(histograms.reaching(np.clip(last, 1.0, most).astype(np.uint64)))
    return np.where(first >= 1, low, 0.0), np.where(last <= n, high, np.inf)


def of_rows(side: Side, percent: float) -> tuple[Floats, Floats]:
    """The interval (ns) of a percentile of each row; where it is not there, one that overlaps every other."""
    low, high = interval_ns(side.groups.histograms, percent)
    if not len(low):
        return np.zeros(len(side.at)), np.full(len(side.at), np.inf)
    return np.where(side.at >= 0, low[side.at], 0.0), np.where(side.at >= 0, high[side.at], np.inf)
