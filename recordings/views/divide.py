"""Divides the calls of a row among its CUDA kernels, and takes captured calls out.

The histogram of a row has fine counters. For each CUDA kernel of the row, only coarse buckets are stored; a
bucket is as wide as 32 counters (``model.cuda_kernels``). Within a bucket, the CUDA kernel with the shortest
mean duration gets the calls of the lowest counters. The CUDA kernel with the next longer mean gets the calls
after those, and so on. So each CUDA kernel keeps exactly its number of calls, and all CUDA kernels together
have the histogram of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.model.cuda_kernels import BUCKETS
from stalltop.model.histograms.hdr import COUNTERS, highest_ns, indices_of, lowest_ns
from stalltop.model.histograms.histograms import Histograms
from stalltop.recordings.views.spread import Alike, Steps, Units, spread

I64 = NDArray[np.int64]

_COUNTERS: Final = COUNTERS // BUCKETS
"""Number of counters in a bucket."""
REST: Final = -1
"""Number that stands in place of the CUDA kernel for calls whose CUDA kernel is not known."""


class SeriesCounts(NamedTuple):
    """The counts of one series, in one window or in all windows."""

    calls: int
    errors: int
    bytes: int
    total_ns: int
    max_ns: int


class KernelPart(NamedTuple):
    """The counts of one CUDA kernel of row number ``row``."""

    row: int
    kernel: int
    """Number of the CUDA kernel: 0 or above."""
    calls: int
    errors: int
    total_ns: int
    max_ns: int
    buckets: Sequence[Sequence[int]]
    """Pairs of (bucket, calls), in ascending order of the buckets."""


class Single(NamedTuple):
    """A captured call of row number ``row``."""

    row: int
    kernel: int
    duration_ns: int
    bytes: int
    error: int


class Divided(NamedTuple):
    """All calls of the rows. Captured calls are listed one by one. All other calls are in records that each
    stand for several calls with the same values."""

    row: I64
    kernel: I64
    alike: Alike
    kept: I64
    """Indices of those captured calls that were found in the counts of their row. They were subtracted from
    these counts."""
    kept_kernel: I64
    """The CUDA kernel of each call in ``kept``."""


def divide(
    rows: Sequence[SeriesCounts],
    histograms: Histograms,
    parts: Sequence[KernelPart],
    singles: Sequence[Single],
) -> Divided:
    """Return the calls of ``rows``; each call is counted once. ``parts`` are the counts of CUDA kernels, and
    ``singles`` the captured calls."""
    unit_row, unit_kernel, units = _units(rows, parts)
    cell = histograms.row_of_entry() * COUNTERS + histograms.index
    count = histograms.count.astype(np.int64)
    share, share_count, cell, count = _shares(unit_row, units, cell, count, parts, len(rows))
    kept, kept_unit = _without_singles(
        unit_row, unit_kernel, units, (cell, count), (share, share_count), singles
    )
    steps = _steps(unit_row, units, (cell, count), (share, share_count))
    alike = spread(units, steps)
    return Divided(unit_row[alike.unit], unit_kernel[alike.unit], alike, kept, unit_kernel[kept_unit])


def _units(rows: Sequence[SeriesCounts], parts: Sequence[KernelPart]) -> tuple[I64, I64, Units]:
    """Return, for each unit, the row, the CUDA kernel and the counts. Unit i is row i without the calls of
    its ``parts``, so the CUDA kernel of unit i is not known. After the units of rows, there is one unit for
    each of ``parts``."""
    whole = np.array(rows, np.int64).reshape(-1, len(SeriesCounts._fields))
    part = np.array([(p.row, p.kernel, p.calls, p.errors, p.total_ns, p.max_ns) for p in parts], np.int64)
    part = part.reshape(-1, 6)
    calls, errors, bytes_, total, longest = whole.T.copy()
    known_longest = np.full(len(rows), -1, np.int64)
    np.maximum.at(known_longest, part[:, 0], part[:, 5])
    for column, taken in ((calls, 2), (errors, 3), (total, 4)):
        np.subtract.at(column, part[:, 0], part[:, taken])
        np.maximum(column, 0, out=column)
    has_parts = known_longest >= 0
    # If the longest launch of a row is longer than that of every known CUDA kernel, it is certainly of an
    # unknown CUDA kernel. Otherwise this is not certain.
    exact = ~has_parts | (longest > known_longest)
    total[calls == 0] = 0
    units = Units(
        np.concatenate((calls, part[:, 2])),
        np.concatenate((errors, part[:, 3])),
        np.concatenate((bytes_, np.zeros(len(parts), np.int64))),  # a launch moves no bytes
        np.concatenate((total, part[:, 4])),
        np.concatenate((longest, part[:, 5])),
        np.concatenate((exact.astype(np.int64), np.ones(len(parts), np.int64))),
    )
    row = np.concatenate((np.arange(len(rows)), part[:, 0]))
    kernel = np.concatenate((np.full(len(rows), REST), part[:, 1]))
    return row, kernel, units


def _shares(
    unit_row: I64, units: Units, cell: I64, count: I64, parts: Sequence[KernelPart], rows: int
) -> tuple[I64, I64, I64, I64]:
    """Return four arrays. The first two are keys (unit * BUCKETS + bucket, ascending) and the number of calls
    of each key. The other two are cells (row * COUNTERS + counter) and the number of calls of each cell. If
    the CUDA kernels of a row have more calls in a bucket than the counters of the row, the missing calls are
    added to the bucket's last counter."""
    place, inverse = np.unique(cell // _COUNTERS, return_inverse=True)  # row * BUCKETS + bucket
    in_row = np.zeros(len(place), np.int64)
    np.add.at(in_row, inverse, count)
    entries = [
        (rows + number, bucket, calls)
        for number, part in enumerate(parts)
        for bucket, calls in part.buckets
        if 0 <= bucket < BUCKETS and calls > 0
    ]
    of_parts = np.array(entries, np.int64).reshape(-1, 3)
    wanted = unit_row[of_parts[:, 0]] * BUCKETS + of_parts[:, 1]
    known, where = np.unique(wanted, return_inverse=True)
    taken = np.zeros(len(known), np.int64)
    np.add.at(taken, where, of_parts[:, 2])
    have = _looked_up(place, in_row, known)
    short = taken > have
    if short.any():
        # The tracer read buckets and counters at slightly different times, or the file is damaged. The
        # buckets are trusted.
        cell = np.concatenate((cell, known[short] * _COUNTERS + _COUNTERS - 1))
        count = np.concatenate((count, (taken - have)[short]))
        cell, inverse = np.unique(cell, return_inverse=True)
        summed = np.zeros(len(cell), np.int64)
        np.add.at(summed, inverse, count)
        count = summed
    rest = in_row - np.minimum(_looked_up(known, taken, place), in_row)
    share = np.concatenate((place, of_parts[:, 0] * BUCKETS + of_parts[:, 1]))
    share_count = np.concatenate((rest, of_parts[:, 2]))
    order = np.argsort(share, kind="stable")
    return share[order], share_count[order], cell, count


def _without_singles(
    unit_row: I64,
    unit_kernel: I64,
    units: Units,
    cells: tuple[I64, I64],
    shares: tuple[I64, I64],
    singles: Sequence[Single],
) -> tuple[I64, I64]:
    """Subtract captured calls from the counts, which are changed in place. Return the indices in ``singles``
    of the calls that were found in the counts, and the unit of each of them."""
    if not singles:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    unit_of = {
        key: unit for unit, key in enumerate(zip(unit_row.tolist(), unit_kernel.tolist(), strict=True))
    }
    (cell, count), (share, share_count) = cells, shares
    row, _, duration, _, _ = np.array(singles, np.int64).T
    counter = indices_of(duration)
    at_cell = _places(cell, row * COUNTERS + counter)
    taken: list[tuple[int, int]] = []
    for number, single in enumerate(singles):
        own = at_cell[number]
        if own < 0 or count[own] < 1:
            continue
        for unit in dict.fromkeys((unit_of.get((single.row, single.kernel), single.row), single.row)):
            [there] = _places(share, np.array([unit * BUCKETS + counter[number] // _COUNTERS]))
            if there >= 0 and share_count[there] > 0 and units.calls[unit] > 0:
                _take(units, unit, single)
                count[own] -= 1
                share_count[there] -= 1
                taken.append((number, unit))
                break
    found = np.array(taken, np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _take(units: Units, unit: int, single: Single) -> None:
    units.calls[unit] -= 1
    units.total_ns[unit] = max(units.total_ns[unit] - single.duration_ns, 0)
    units.errors[unit] = max(units.errors[unit] - single.error, 0)
    units.bytes[unit] = max(units.bytes[unit] - single.bytes, 0)
    if single.duration_ns >= units.max_ns[unit]:
        # This was the longest call. The duration of the next longest is known only from the histogram.
        units.exact[unit] = 0


def _steps(unit_row: I64, units: Units, cells: tuple[I64, I64], shares: tuple[I64, I64]) -> Steps:
    """Return the steps of all units. The calls of each row are sorted by rising duration. A step consists of
    consecutive calls of the same counter and the same unit."""
    (cell, count), (share, share_count) = cells, shares
    unit, bucket = np.divmod(share, BUCKETS)
    mean = units.total_ns / np.maximum(units.calls, 1)
    order = np.lexsort((mean[unit], bucket, unit_row[unit]))
    unit, share_count = unit[order], share_count[order]
    share_ends, cell_ends = np.cumsum(share_count), np.cumsum(count)
    stops = np.unique(np.concatenate((share_ends, cell_ends)))
    stops = stops[stops > 0]
    starts = np.concatenate((np.zeros(1, np.int64), stops[:-1]))[: len(stops)]
    unit = unit[np.searchsorted(share_ends, starts, side="right")]
    counter = cell[np.searchsorted(cell_ends, starts, side="right")] % COUNTERS
    order = np.lexsort((counter, unit))
    unit, counter = unit[order], counter[order]
    first = counter - counter % _COUNTERS
    return Steps(
        *(unit, lowest_ns(counter), highest_ns(counter), (stops - starts)[order]),
        *(lowest_ns(first), highest_ns(first + _COUNTERS - 1)),
    )


def _places(sorted_: I64, wanted: I64) -> I64:
    """Return, for each of ``wanted``, its index in ``sorted_``; -1 if it is not in ``sorted_``."""
    if not len(sorted_):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(sorted_, wanted), len(sorted_) - 1)
    return np.where(sorted_[at] == wanted, at, -1)


def _looked_up(sorted_: I64, values: I64, wanted: I64) -> I64:
    """Return, for each of ``wanted``, the element of ``values`` at its index in ``sorted_``; 0 if it is not
    in ``sorted_``."""
    at = _places(sorted_, wanted)
    return np.where(at >= 0, values[at] if len(values) else 0, 0)
