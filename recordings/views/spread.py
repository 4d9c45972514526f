"""Computes durations for single calls that add up exactly to the counts of a row.

A row has the number of calls, their total time, the longest duration, and a histogram. The counters of the
histogram leave each duration uncertain by less than one percent. Every call gets a whole number of
nanoseconds within the range of its counter. The durations are chosen so that number, sum and maximum of the
calls are exactly those of the row. Calls with the same values are stored as one record with a weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stalltop.model.histograms.hdr import HIGHEST_NS

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """n sets of calls (units) whose sums are known. All arrays are int64 of shape (n,)."""

    calls: I64
    errors: I64
    bytes: I64
    total_ns: I64
    max_ns: I64
    """Upper bound of the durations."""
    exact: I64
    """1 if one of the calls took ``max_ns``, 0 if that is not known."""

    def __len__(self) -> int:
        return len(self.calls)


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Arrays with one element for each step. A step consists of ``count`` calls of ``unit`` that took
    ``lowest_ns`` to ``highest_ns``. Steps are sorted by unit and duration."""

    unit: I64
    lowest_ns: I64
    highest_ns: I64
    count: I64
    surely_above_ns: I64
    """Lower bound of the durations, which is used instead of ``lowest_ns`` in one case: no durations from
    ``lowest_ns`` to ``highest_ns`` add up to the total time of the unit."""
    surely_below_ns: I64
    """Upper bound of the durations, which is used instead of ``highest_ns`` in the same case."""


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Arrays with one element for each record. A record stands for ``weight`` calls of ``unit`` with the same
    values."""

    unit: I64
    duration_ns: I64
    bytes: I64
    errors: I64
    """1 if these calls returned an error, else 0."""
    weight: I64


def spread(units: Units, steps: Steps) -> Alike:
    """Return the calls of ``units``, with durations within ``steps``.

    The file does not store which calls failed, or how many bytes each call moved. It is assumed that the
    shortest calls failed. Bytes are spread evenly over the calls. The remainder of the division goes to the
    longest calls, one byte each.
    """
    steps = _complete(units, steps)
    known = units.exact
    # The longest calls of each unit are in the unit's last step.
    last = np.flatnonzero(np.diff(steps.unit, append=-1))
    # The duration of the longest call is known (``max_ns``). The other calls share the rest of the total
    # time.
    others = steps.count.copy()
    others[last] -= known[steps.unit[last]]
    calls = np.maximum(units.calls - known, 0)
    rest = units.total_ns - known * units.max_ns
    bounds = [
        _within(low, high, units.max_ns[steps.unit], last)
        for low, high in (
            (steps.lowest_ns, steps.highest_ns),
            (steps.surely_above_ns, steps.surely_below_ns),
        )
    ]
    value, room = _values(steps.unit, bounds, others, calls, rest)
    left = rest - _sums(steps.unit, value * others, len(units))
    # Because of rounding, some nanoseconds are left. The shortest calls whose bounds allow it get one of
    # these nanoseconds each.
    wide = np.where(room | (left < 0)[steps.unit], others, 0)
    more, extra = np.divmod(left, np.maximum(_sums(steps.unit, wide, len(units)), 1))
    value += np.where(wide > 0, more[steps.unit], 0)
    before = np.cumsum(wide) - wide
    before -= before[np.searchsorted(steps.unit, steps.unit)]
    longer = np.clip(extra[steps.unit] - before, 0, wide)

    # The calls of all units are numbered consecutively, within a unit by rising duration. A new record begins
    # wherever a value changes from one call to the next.
    ends = np.cumsum(steps.count)
    begins = ends - steps.count
    end = np.cumsum(units.calls)
    begin = end - units.calls
    each, more_bytes = np.divmod(units.bytes, np.maximum(units.calls, 1))
    errors = np.minimum(units.errors, units.calls)
    cuts = (ends, begins + longer, begin + errors, end - more_bytes, (end - known)[units.calls > 0])
    stops = np.unique(np.concatenate(cuts))
    stops = stops[stops > 0]
    starts = np.concatenate((np.zeros(1, np.int64), stops[:-1]))[: len(stops)]
    step = np.searchsorted(ends, starts, side="right")
    unit = steps.unit[step]
    within = starts - begin[unit]
    is_longest = (known[unit] > 0) & (within == units.calls[unit] - 1)
    usual = value[step] + (starts - begins[step] < longer[step])
    return Alike(
        unit=unit,
        duration_ns=np.where(is_longest, units.max_ns[unit], usual),
        bytes=each[unit] + (starts >= (end - more_bytes)[unit]),
        errors=(within < errors[unit]).astype(np.int64),
        weight=stops - starts,
    )


def _within(low: I64, high: I64, longest: I64, last: NDArray[np.intp]) -> tuple[I64, I64]:
    """Return the bounds ``low`` and ``high`` of each step, limited to ``longest``. ``last`` has the index of
    the last step of each unit."""
    high = high.copy()
    # The highest counter of a histogram has no upper bound, so the durations of its calls are limited only by
    # ``longest``.
    high[last] = np.where(high[last] >= HIGHEST_NS, np.maximum(high[last], longest[last]), high[last])
    np.minimum(high, longest, out=high)
    return np.minimum(low, high), high


def _values(
    unit: I64, bounds: Sequence[tuple[I64, I64]], count: I64, calls: I64, rest: I64
) -> tuple[I64, NDArray[np.bool_]]:
    """Return a duration for each step, and whether its bounds allow a longer one.

    In all steps of a unit, the duration lies at the same fraction of the way from the lowest to the highest
    duration. For each unit, the first of ``bounds`` that allow its total time are used.
    """
    # If no bounds allow the total time, the counts contradict each other, as in a damaged file. Then all
    # calls get the mean.
    value = (np.maximum(rest, 0) // np.maximum(calls, 1))[unit]
    room = np.ones(len(unit), np.bool_)
    for low, high in reversed(bounds):
        least, most = _sums(unit, low * count, len(calls)), _sums(unit, high * count, len(calls))
        fits = ((least <= rest) & (rest <= most))[unit]
        way = (rest - least) / np.maximum(most - least, 1)
        # For units whose total time does not fit, ``step`` has no meaning and is not used.
        step = np.floor(np.clip(way, 0.0, 1.0)[unit] * (high - low)).astype(np.int64)
        value = np.where(fits, np.minimum(low + step, high), value)
        room = np.where(fits, value < high, room)
    return value, room


def _complete(units: Units, steps: Steps) -> Steps:
    """Return ``steps``, changed so that each unit has as many calls as ``units`` says. If the two numbers
    differ, the number in ``units`` is right."""
    missing = units.calls - _sums(steps.unit, steps.count, len(units))
    if not missing.any() and (steps.count > 0).all():
        return steps
    count = steps.count.copy()
    for one in np.flatnonzero(missing < 0).tolist():
        begin, end = np.searchsorted(steps.unit, (one, one + 1))
        over = np.cumsum(count[begin:end]) - units.calls[one]
        count[begin:end] = np.clip(count[begin:end] - np.maximum(over, 0), 0, None)
    more = np.flatnonzero(missing > 0)
    longest = units.max_ns[more]
    nothing = np.zeros(len(more), np.int64)
    unit = np.concatenate((steps.unit, more))
    low = np.concatenate((steps.lowest_ns, nothing))
    columns = (
        unit,
        low,
        np.concatenate((steps.highest_ns, longest)),
        np.concatenate((count, missing[more])),
        np.concatenate((steps.surely_above_ns, nothing)),
        np.concatenate((steps.surely_below_ns, longest)),
    )
    order = np.lexsort((low, unit))
    order = order[columns[3][order] > 0]
    return Steps(*(column[order] for column in columns))


def _sums(unit: I64, values: I64, n: int) -> I64:
    result = np.zeros(n, np.int64)
    np.add.at(result, unit, values)
    return result
