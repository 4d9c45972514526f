"""The order "worst first": rows that lose time, or whose p99 is far above its baseline, come first. Rows
seldom change places."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.tui.columns.cells import Values
from stalltop.tui.columns.now import total_values
from stalltop.tui.views.groups import Grouped, Key

CLEARLY: Final = 1.5
"""A value differs from another one if it is larger or smaller by more than this factor."""
LOOKS: Final = 3
"""Number of consecutive windows in which a value must differ from the one by which its row is sorted. Then
the row is sorted by the new value. A row that begins to lose time is sorted by its loss at once."""
LEAST_CALLS: Final = 20
"""Least number of calls in a row whose p99 is compared with its baseline."""
MOST_TABLES: Final = 50
"""The most tables whose values are remembered. Tables that show different things count as different."""


@dataclass(slots=True)
class _Held:
    """The values by which the rows of one table are sorted."""

    keys: Sequence[Key]
    values: Values
    """A row of values for each key."""
    streaks: NDArray[np.int64]
    """For each value: in how many consecutive windows, up to the last, the current value was clearly larger;
    negative: in how many it was clearly smaller."""
    at: float
    """The end of the last window that was taken into account (Unix seconds)."""


class WorstFirst:
    """Sorts the rows of tables, and remembers the values by which they are sorted."""

    def __init__(self) -> None:
        self._held: dict[Hashable, _Held] = {}

    def order(
        self, table: Hashable, rows: Grouped, lost: Mapping[Key, float], by_name: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the positions of ``rows``, the worst first; equal ones in the order ``by_name``.

        ``table`` identifies what the table shows. ``lost`` is the loss of rows through problems.
        """
        return ordered(self._steady(table, rows.keys, badness(rows, lost), rows.window.end), by_name)

    def _steady(self, table: Hashable, keys: Sequence[Key], values: Values, at: float) -> Values:
        """Return the values by which to sort. A value stays the same until the current value has clearly
        differed from it in ``LOOKS`` consecutive windows."""
        before = self._held.get(table)
        if before is None or at < before.at:  # also after a step into the past
            if len(self._held) >= MOST_TABLES:
                self._held.clear()
            self._held[table] = _Held(keys, values, np.zeros(values.shape, np.int64), at)
            return values
        held = before if before.keys == keys else _aligned(before, keys, values)
        if at > held.at:
            more, less = values > held.values * CLEARLY, values * CLEARLY < held.values
            up = np.where(more, np.maximum(held.streaks, 0) + 1, 0)
            down = np.where(less, np.minimum(held.streaks, 0) - 1, 0)
            streaks = up + down
            moved = np.abs(streaks) >= LOOKS
            # A problem is reported only once it is certain: its rows need not wait again.
            moved[:, 0] |= (held.values[:, 0] == 0.0) & (values[:, 0] > 0.0)
            held = _Held(keys, np.where(moved, values, held.values), np.where(moved, 0, streaks), at)
        self._held[table] = held
        return held.values


def _aligned(held: _Held, keys: Sequence[Key], values: Values) -> _Held:
    """Return ``held`` with its values and streaks in the order of ``keys``. A row that ``held`` does not have
    gets its value from ``values``, and no streak."""
    index = {key: at for at, key in enumerate(held.keys)}
    old = np.array([index.get(key, -1) for key in keys], np.int64)
    known = old >= 0
    values, streaks = values.copy(), np.zeros(values.shape, np.int64)
    values[known], streaks[known] = held.values[old[known]], held.streaks[old[known]]
    return _Held(keys, values, streaks, held.at)


def badness(rows: Grouped, lost: Mapping[Key, float]) -> Values:
    """Return three values for each row, the most important first: the time lost through problems, the p99
    divided by its baseline if that is clearly above 1, and the time in calls."""
    values = np.zeros((len(rows), 3))
    if lost:
        values[:, 0] = [lost.get(key, 0.0) for key in rows.keys]
    slower = np.nan_to_num(rows.against_normal, nan=1.0)
    enough = np.nan_to_num(rows.of(rows.groups.calls), nan=0.0) >= LEAST_CALLS
    values[:, 1] = np.where(enough & (slower > CLEARLY), slower, 1.0)
    known = rows.at >= 0
    between = np.zeros(len(rows), np.bool_)
    between[known] = rows.groups.between[rows.at[known]]
    # The time between calls is no time of calls: an idle program has most of it.
    values[:, 2] = np.where(between, 0.0, np.nan_to_num(total_values(rows), nan=0.0))
    return values


def ordered(values: Values, by_name: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return positions sorted by ``values``, the largest first; equal ones in the order ``by_name``."""
    lost, slower, total = -values[by_name].T
    return by_name[np.lexsort((total, slower, lost))]
