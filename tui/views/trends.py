"""The p99 of a table's rows in earlier windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from stalltop.model.merge.packing import Packed
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.rows.filter import parse
from stalltop.model.rows.pivot import Groups, pivot
from stalltop.tui.views.groups import Key
from stalltop.tui.views.path import PathStep, decided, scope
from stalltop.tui.views.view import View

WINDOWS = 60
"""The most earlier windows whose p99 is kept."""
AT_ONCE = 10
"""Number of the newest windows whose p99 is computed: as many as the column ``trend`` shows. That of an older
window is known only if it was computed while the window was among these."""
ROWS_AT_ONCE = 5_000
"""Number of rows to compute for one update of the screen. Later updates compute the rest."""
MOST_KEYS = 20_000
"""If the cache of one table has more rows than this, over all windows, it is cleared."""
_ROUNDING = 1e-3
"""Seconds by which two readings of the end of one window may differ because of rounding."""

_Grouping = tuple[tuple[PathStep, ...], str, tuple[Dimension, ...]]


class _TrendCache:
    """The cache for one grouping: for each window, by its end, the rows and their p99 (ns)."""

    def __init__(self) -> None:
        self.places: dict[Key, int] = {}
        self.windows: dict[float, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def copy(self) -> _TrendCache:
        """Return a copy."""
        copy = _TrendCache()
        copy.places, copy.windows = self.places.copy(), self.windows.copy()
        return copy

    def add(self, end: float, groups: Groups) -> None:
        """Add the groups of one window."""
        called = np.flatnonzero(groups.calls)
        places = [self.places.setdefault(groups.keys[i], len(self.places)) for i in called.tolist()]
        self.windows[end] = np.array(places, np.int64), groups.p99_ns[called]

    def keep(self, ends: set[float]) -> None:
        """Forget all windows whose end is not in ``ends``."""
        self.windows = {end: window for end, window in self.windows.items() if end in ends}
        if len(self.places) > MOST_KEYS:
            self.places, self.windows = {}, {}

    def p99_ns(self, keys: Sequence[Key]) -> NDArray[np.float64]:
        """Return the p99 of ``keys``, shape (keys, windows), oldest window first."""
        # The last row of ``found`` (index -1) is for keys that are in no window.
        found = np.full((len(self.places) + 1, len(self.windows)), np.nan)
        for column, end in enumerate(sorted(self.windows)):
            places, ns = self.windows[end]
            found[places, column] = ns
        at = np.array([self.places.get(key, -1) for key in keys], np.int64)
        return found[at]


class RowTrends:
    """The p99 of rows in the latest windows. The cache of a table is kept while the table is shown."""

    def __init__(self) -> None:
        self._parts: tuple[Packed, ...] = ()
        self._known: dict[_Grouping, _TrendCache] = {}
        self._used: set[_Grouping] = set()
        self._rows_left = ROWS_AT_ONCE

    def follow(self, parts: Sequence[Packed], end: float) -> None:
        """From now on use those of ``parts`` (oldest first) that ended at or before ``end`` (Unix time in
        seconds)."""
        before = [part for part in parts if part.window.end <= end + _ROUNDING]
        self._parts = tuple(before[-WINDOWS:])
        self._known = {one: known for one, known in self._known.items() if one in self._used}
        self._used = set()
        self._rows_left = ROWS_AT_ONCE

    def p99_ns(self, view: View, by: tuple[Dimension, ...], keys: Sequence[Key]) -> NDArray[np.float64]:
        """Return the p99 (ns) of the rows ``keys`` of the table of ``view``, grouped ``by``, for each window.

        Shape (rows, windows), oldest first; NaN if there was no call.
        """
        one = view.path, view.filter, by
        self._used.add(one)
        known = self._known.setdefault(one, _TrendCache())
        known.keep({part.window.end for part in self._parts})
        for part in reversed(self._parts[-AT_ONCE:]):
            if part.window.end in known.windows:
                continue
            if self._rows_left <= 0:
                break
            self._rows_left -= len(part.keys)
            window = scope(replace(part.window, rows=part.rows()), view.path)
            window = parse(view.filter).apply(window)
            known.add(part.window.end, pivot(window, by, all_rows=decided(view.path)))
        return known.p99_ns(keys)

    def copy(self) -> RowTrends:
        """Return a copy for another thread, with the figures computed so far."""
        kept = RowTrends()
        kept._parts, kept._rows_left = self._parts, self._rows_left
        kept._known = {one: known.copy() for one, known in self._known.items()}
        return kept


NO_TRENDS = RowTrends()
"""The trends of a table without earlier windows: every p99 is unknown."""
