"""Reads the counts of series from a file. Returns them some rows at a time, or summed up over all windows."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from stalltop.model.histograms import payload as hdr_payload
from stalltop.model.histograms.histograms import Histograms
from stalltop.recordings.views import sums
from stalltop.recordings.views.divide import KernelPart, SeriesCounts, Single
from stalltop.recordings.views.forms import Need
from stalltop.recordings.views.patience import Patience

MOST_APART: Final = 20_000
"""If a query does not distinguish windows and needs more rows of ``counts`` than this, the rows are summed up
over all windows."""
_AT_ONCE: Final = 8192
"""Number of rows in a batch."""


class Head(NamedTuple):
    """The window and the series of a row. In sums over all windows, ``window_id`` is None, and ``start`` is
    that of the first window of the series."""

    window_id: int | None
    series_id: int
    launches: int
    """1 if the operation launches CUDA kernels, else 0."""
    start: float
    """Beginning of the window, Unix seconds."""


class CallStart(NamedTuple):
    """When a captured call began (Unix time in ns), and the thread that made it."""

    start_ns: int
    tid: int


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some rows of ``counts``, with their histograms, counts by CUDA kernel, and captured calls."""

    heads: Sequence[Head]
    rows: Sequence[SeriesCounts]
    histograms: Histograms
    parts: Sequence[KernelPart] = ()
    singles: Sequence[Single] = ()
    moments: Sequence[CallStart] = ()
    """When each of ``singles`` began, and its thread."""


def batches(connection: sqlite3.Connection, need: Need, patience: Patience) -> Iterator[Batch]:
    """Yield the rows that ``need`` describes, in the order of windows. Raises ValueError, TypeError,
    IndexError or OverflowError if the file is damaged."""
    source = "main.counts n"
    if need.rows:
        sums.make(connection, need.events, kernels=False, windows=True)
        chosen = f'temp."~rows{need.name}"'
        connection.execute(
            f'CREATE TEMP TABLE "~rows{need.name}" AS'
            f" SELECT DISTINCT window_id, place FROM ({need.rows}) ORDER BY window_id, place"
        )
        source = f"{chosen} r CROSS JOIN main.counts n ON n.window_id = r.window_id AND n.place = r.place"
    source += (
        ' CROSS JOIN temp."~series" s ON s.series_id = n.series_id'
        " CROSS JOIN main.windows w ON w.window_id = n.window_id"
        f" WHERE n.calls > 0 AND s.events = '{need.events}'"
    )
    [(number,)] = connection.execute(f"SELECT count(*) FROM {source}")
    cursor = connection.execute(
        "SELECT n.window_id, n.series_id, s.launches, w.start, n.calls, n.errors, n.bytes, n.total_ns,"
        " n.max_ns, (SELECT payload FROM main.histograms h WHERE h.window_id = n.window_id"
        f" AND h.place = n.place) FROM {source} ORDER BY n.window_id"
    )
    whole = _Whole() if number > MOST_APART and not need.windows else None
    while found := cursor.fetchmany(_AT_ONCE):
        patience.check()
        batch = _batch(connection, need, found)
        if whole is None:
            yield batch
        else:
            whole.add(batch)
    if whole is not None:
        yield whole.batch()


def _batch(connection: sqlite3.Connection, need: Need, found: Sequence[Sequence[Any]]) -> Batch:
    heads = [Head(*row[:4]) for row in found]
    number = {(head.window_id, head.series_id): at for at, head in enumerate(heads)}
    span = found[0][0], found[-1][0]
    histograms = hdr_payload.histograms([row[9] for row in found])
    rows = [SeriesCounts(*row[4:9]) for row in found]
    parts = []
    for window, series, kernel, calls, errors, total, longest, buckets in connection.execute(
        "SELECT window_id, series_id, kernel_id, calls, errors, total_ns, max_ns, buckets"
        " FROM main.kernel_counts WHERE window_id BETWEEN ? AND ? AND calls > 0",
        span if need.kernels else (0, -1),
    ):
        at = number.get((window, series))
        if at is not None and heads[at].launches:
            parts.append(KernelPart(at, kernel, calls, errors, total, longest, json.loads(buckets)))
    singles, moments = [], []
    for window, series, kernel, duration, moved, returned, start, tid in connection.execute(
        "SELECT window_id, series_id, kernel_id, duration_ns, bytes, returned, start_ns, tid FROM main.calls"
        " WHERE window_id BETWEEN ? AND ?",
        span,
    ):
        at = number.get((window, series))
        if at is not None:
            singles.append(Single(at, kernel, duration, moved, int(bool(returned))))
            moments.append(CallStart(start, tid))
    return Batch(heads, rows, histograms, parts, singles, moments)


class _Whole:
    """Adds up the rows of all windows by series. Captured calls are included in these sums, but not listed:
    sums have no start times and no threads of calls."""

    def __init__(self) -> None:
        self._heads: dict[int, Head] = {}
        self._rows: dict[int, SeriesCounts] = {}
        self._parts: dict[tuple[int, int], tuple[KernelPart, Counter[int]]] = {}
        self._histograms = Histograms.empty()

    def add(self, batch: Batch) -> None:
        """Add ``batch``."""
        number = {series: at for at, series in enumerate(self._heads)}
        group = []
        for head, row in zip(batch.heads, batch.rows, strict=True):
            series = head.series_id
            before = self._rows.get(series)
            self._rows[series] = row if before is None else _added_rows(before, row)
            if before is None:
                self._heads[series] = head._replace(window_id=None)
                number[series] = len(number)
            group.append(number[series])
        for part in batch.parts:
            key = number[batch.heads[part.row].series_id], part.kernel
            known, buckets = self._parts.get(key, (None, Counter[int]()))
            for bucket, calls in part.buckets:
                buckets[bucket] += calls
            part = part._replace(row=key[0], buckets=())
            self._parts[key] = part if known is None else _added_parts(known, part), buckets
        own = np.arange(len(self._histograms))
        both = Histograms.concatenate((self._histograms, batch.histograms))
        self._histograms = both.grouped(np.concatenate((own, np.array(group, np.int64))), len(number))

    def batch(self) -> Batch:
        """Return the sums as one batch."""
        parts = [part._replace(buckets=sorted(buckets.items())) for part, buckets in self._parts.values()]
        return Batch(list(self._heads.values()), list(self._rows.values()), self._histograms, parts)


def _added_rows(first: SeriesCounts, second: SeriesCounts) -> SeriesCounts:
    return SeriesCounts(
        first.calls + second.calls,
        first.errors + second.errors,
        first.bytes + second.bytes,
        first.total_ns + second.total_ns,
        max(first.max_ns, second.max_ns),
    )


def _added_parts(first: KernelPart, second: KernelPart) -> KernelPart:
    return first._replace(
        calls=first.calls + second.calls,
        errors=first.errors + second.errors,
        total_ns=first.total_ns + second.total_ns,
        max_ns=max(first.max_ns, second.max_ns),
    )
