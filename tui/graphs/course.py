"""The values of a figure in past windows, in columns of equal time. A value is computed once for each
window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stalltop.model.merge.packing import Packed
from stalltop.tui.graphs.figures import GraphFigure, Subject

SECONDS = 300.0
"""Seconds that a graph covers at least, if values of that many seconds are known."""
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300)
"""The possible lengths of the time that one column covers, in seconds, once the known time fills a graph."""
YOUNG_SECONDS = (10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0)
"""The seconds that a graph covers while less is known: it seldom changes its scale, and is not mostly
empty."""
ROWS_AT_ONCE = 3_000
"""The most rows of past windows to unpack for one refresh. Later refreshes unpack the rest."""
_MOST_KEPT = 4_000
"""If more values of one graph than this are kept, those of windows that the graph no longer shows are
dropped."""
LOOKED_AT = 300
"""The most windows of the past in which a figure is looked for values that differ."""
FLAT = 1.1
"""A figure whose largest value is at most this many times its smallest one does not vary."""
_NEAR = 1e-6
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GraphAxis:
    """The columns of a graph."""

    start: float
    """The time at which the first column begins (Unix seconds)."""
    step: float
    """Seconds of a column."""
    number: int
    """The number of columns."""

    def column(self, at: float) -> int:
        """Return the column of a window that ended at ``at`` (Unix time); it may be outside."""
        return int(np.ceil((at - self.start) / self.step - _NEAR)) - 1

    @property
    def seconds(self) -> float:
        """Return the time that all columns cover."""
        return float(self.step * self.number)


def axis_of(parts: Sequence[Packed], number: int) -> GraphAxis:
    """Return ``number`` columns that end with the newest of ``parts``.

    They cover at least ``SECONDS``, with a length rounded up to one of ``STEPS``. Such columns begin at whole
    multiples of their length, so that a value stays in its column. While less time is known, they cover
    the least of ``YOUNG_SECONDS`` that has room for it; the columns before it are empty.
    """
    begin, end = parts[0].window.start, parts[-1].window.end
    step = next((step for step in STEPS if step * number >= SECONDS), STEPS[-1])
    young = next((seconds for seconds in YOUNG_SECONDS if end - begin <= seconds + _NEAR), step * number)
    if young < step * number:
        return GraphAxis(end - young, young / number, number)
    return GraphAxis((np.ceil(end / step - _NEAR) - number) * step, step, number)


def within(parts: Sequence[Packed], axis: GraphAxis) -> Sequence[Packed]:
    """Return those of ``parts`` that end in the columns of ``axis``."""
    first = len(parts)
    while first and parts[first - 1].window.end > axis.start:
        first -= 1
    return parts[first:]


def spread(ends: Floats, starts: Floats, values: Floats, axis: GraphAxis, *, peak: bool) -> Floats:
    """Return the value of each column: the largest of its windows with ``peak``, else their mean; NaN if
    unknown. A window that covers several columns counts in each."""
    first = np.floor((starts - axis.start) / axis.step + _NEAR).astype(np.int64)
    last = np.ceil((ends - axis.start) / axis.step - _NEAR).astype(np.int64) - 1
    kept = np.flatnonzero(~np.isnan(values) & (last >= 0) & (first < axis.number))
    first, last = np.maximum(first[kept], 0), np.minimum(last[kept], axis.number - 1)
    counts = np.maximum(last - first + 1, 1)
    steps = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    columns = np.minimum(np.repeat(first, counts) + steps, axis.number - 1)
    each = np.repeat(values[kept], counts)
    found = np.full(axis.number, np.nan)
    if peak:
        np.fmax.at(found, columns, each)
        return found
    sums, numbers = np.zeros(axis.number), np.zeros(axis.number)
    np.add.at(sums, columns, each)
    np.add.at(numbers, columns, 1.0)
    np.divide(sums, numbers, out=found, where=numbers > 0)
    return found


class PastValues:
    """The values of ``figure`` for ``subject``."""

    def __init__(self, figure: GraphFigure, subject: Subject) -> None:
        self.figure = figure
        self.subject = subject
        self._known: dict[float, float] = {}
        """Values by the end of their window; NaN if the window has none."""
        self._least, self._most = float("inf"), float("-inf")
        """Of all values that were looked at."""

    def value(self, part: Packed) -> float:
        """Return the value in one window; NaN if it is not known."""
        at = part.window.end
        found = self._known.get(at)
        if found is None:
            value = self.figure.value(part, self.subject)
            found = self._known[at] = float("nan") if value is None else float(value)
            if found == found:
                self._least, self._most = min(self._least, found), max(self._most, found)
            if len(self._known) > 2 * _MOST_KEPT:  # of a figure that no graph shows
                del self._known[next(iter(self._known))]
        return found

    def varies(self, parts: Sequence[Packed]) -> bool:
        """Return whether the values of the windows that were looked at differ: the newest ``LOOKED_AT`` when
        this was first called, those that a graph showed, and the newest at each call."""
        if not self._varied:
            if self._known:
                self.value(parts[-1])
            else:
                self.values(parts[-LOOKED_AT:])
        return self._varied

    @property
    def _varied(self) -> bool:
        return self._most > FLAT * max(self._least, 0.0)

    def values(self, parts: Sequence[Packed]) -> Floats:
        """Return the value in each of ``parts``. Values of rows take long to compute: the newest windows come
        first, the others are NaN until a later refresh."""
        if self.figure.of != "row":
            found = np.fromiter((self.value(part) for part in parts), np.float64, len(parts))
        else:
            found = np.full(len(parts), np.nan)
            left = ROWS_AT_ONCE
            for at in reversed(range(len(parts))):
                part = parts[at]
                if part.window.end not in self._known:
                    left -= len(part.keys) + 1
                    if left < 0:
                        continue
                found[at] = self.value(part)
        if len(self._known) > _MOST_KEPT and parts:
            since = parts[0].window.end
            self._known = {at: value for at, value in self._known.items() if at >= since}
        return found
