"""Rows of calls that are alike, from stored histograms into temporary tables; and of these, single calls."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from model.errors import Told
from outputs import hdr_payload
from store.query import views
from store.query.divide import REST, Divided, Part, Row, Single, divide
from store.query.guard import Patience
from store.query.rewrite import Form, Need

MOST_ROWS: Final = 4_000_000
"""Rows of calls that are alike that one query may need."""
MOST_CALLS: Final = 16_000_000
"""Calls that one query may need one by one."""
_DIGIT: Final = 4000
"""Weights are counted out in numbers of two digits of this base: its square is ``MOST_CALLS``."""
_AT_ONCE: Final = 8192
"""Histograms that are worked on together."""
_NARROWER: Final = (
    "ask for less: add WHERE with window_start, cgroup_id, pid, op or layer; or for COUNT, SUM, AVG, MAX"
)
_COLUMNS: Final = (
    "window_id INTEGER, series_id INTEGER, kernel_id INTEGER, duration_ns INTEGER, bytes INTEGER,"
    ' error INTEGER, start_ns INTEGER, tid INTEGER, kept INTEGER, "~calls" INTEGER'
)


def unfold(connection: sqlite3.Connection, need: Need, patience: Patience) -> None:
    """Make what stands for the calls that ``need`` names. Raises Told where they are too many."""
    table = f"~alike{need.name}" if need.name.startswith("~") else f"~alike~{need.name}"
    connection.execute(f'CREATE TEMP TABLE "{table}" ({_COLUMNS})')
    rows = calls = 0
    for records in _records(connection, need, patience):
        rows += len(records)
        calls += sum(record[-1] for record in records)
        if rows > MOST_ROWS:
            raise Told(f"this query asks for each of more than {calls:,} calls", _NARROWER)
        if need.form is Form.SINGLE and calls > MOST_CALLS:
            raise Told(f"this query needs more than {MOST_CALLS:,} calls one by one", _NARROWER)
        connection.executemany(f'INSERT INTO temp."{table}" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)', records)
    single = need.form is Form.SINGLE
    if single:
        _count_out(connection, table)
    _make_view(connection, need, table, single=single)


def _make_view(connection: sqlite3.Connection, need: Need, table: str, *, single: bool) -> None:
    join = (
        f' CROSS JOIN temp."~digits" a ON a.digit <= (n."~calls" - 1) / {_DIGIT}'
        f' CROSS JOIN temp."~digits" b ON b.digit < min({_DIGIT}, n."~calls" - a.digit * {_DIGIT})'
    )
    weight = "" if single else f', n."{views.WEIGHT}"'
    columns = ", ".join(_SQL.get(name, f"n.{name}") for name, _ in views.EVENT_COLUMNS)
    connection.execute(f'DROP VIEW IF EXISTS temp."{need.name}"')
    connection.execute(
        f'CREATE TEMP VIEW "{need.name}" AS SELECT {columns}{weight} FROM temp."{table}" n'
        f"{join if single else ''} LEFT JOIN main.windows w ON w.window_id = n.window_id"
        ' LEFT JOIN temp."~series" s ON s.series_id = n.series_id'
        ' LEFT JOIN temp."~kernels" k ON k.kernel_id = n.kernel_id'
    )


_SQL: Final = {
    "window_start": "w.start AS window_start",
    "kernel_name": "k.kernel_name",
    **{name: f"s.{name}" for name in ("cgroup_id", "pid", "process", "layer", "op")},
}


def _count_out(connection: sqlite3.Connection, table: str) -> None:
    """The digits that the largest weight needs."""
    (most,) = connection.execute(f'SELECT ifnull(max("~calls"), 0) FROM temp."{table}"').fetchone()
    connection.execute('CREATE TEMP TABLE IF NOT EXISTS "~digits" (digit INTEGER PRIMARY KEY)')
    digits = min(most, _DIGIT)
    connection.executemany(
        'INSERT OR IGNORE INTO temp."~digits" VALUES (?)', ((digit,) for digit in range(digits))
    )


def _records(
    connection: sqlite3.Connection, need: Need, patience: Patience
) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of the table, some windows at a time."""
    chosen = f' JOIN ({need.rows}) r ON r.window_id = n.window_id AND r."{views.SERIES}" = n.series_id'
    cursor = connection.execute(
        "SELECT n.window_id, n.series_id, s.launches, w.start, n.calls, n.errors, n.bytes, n.total_ns,"
        f" n.max_ns, h.payload FROM main.counts n{chosen if need.rows else ''}"
        ' CROSS JOIN temp."~series" s ON s.series_id = n.series_id'
        " CROSS JOIN main.windows w ON w.window_id = n.window_id"
        " CROSS JOIN main.histograms h ON h.window_id = n.window_id AND h.place = n.place"
        " WHERE n.calls > 0 AND s.events = ? ORDER BY n.window_id",
        (need.events,),
    )
    while found := cursor.fetchmany(_AT_ONCE):
        patience.check()
        yield _batch(connection, need, found)


def _batch(
    connection: sqlite3.Connection, need: Need, found: Sequence[Sequence[Any]]
) -> list[tuple[Any, ...]]:
    try:
        histograms = hdr_payload.histograms([row[9] for row in found])
        number = {(row[0], row[1]): at for at, row in enumerate(found)}
        span = found[0][0], found[-1][0]
        launches = {(row[0], row[1]): at for at, row in enumerate(found) if row[2]}
        parts = _parts(connection, launches, span) if need.kernels else []
        singles, more = _singles(connection, number, span)
        rows = [Row(*row[4:9]) for row in found]
        return _told(found, divide(rows, histograms, parts, singles), singles, more, need)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise Told(f"the file is damaged: a histogram cannot be read ({error})") from None


def _parts(
    connection: sqlite3.Connection, number: dict[tuple[int, int], int], span: tuple[int, int]
) -> list[Part]:
    """What kernels counted, of the rows in ``number``."""
    found = connection.execute(
        "SELECT window_id, series_id, kernel_id, calls, errors, total_ns, max_ns, buckets"
        " FROM main.kernel_counts WHERE window_id BETWEEN ? AND ? AND calls > 0",
        span,
    )
    return [
        Part(number[window, series], kernel, calls, errors, total, longest, json.loads(buckets))
        for window, series, kernel, calls, errors, total, longest, buckets in found
        if (window, series) in number
    ]


def _singles(
    connection: sqlite3.Connection, number: dict[tuple[int, int], int], span: tuple[int, int]
) -> tuple[list[Single], list[tuple[int, int]]]:
    """The calls that were kept, of the rows in ``number``; and when each began and in which thread."""
    found = connection.execute(
        "SELECT window_id, series_id, kernel_id, duration_ns, bytes, returned, start_ns, tid FROM main.calls"
        " WHERE window_id BETWEEN ? AND ?",
        span,
    )
    singles, more = [], []
    for window, series, kernel, duration, moved, returned, start, tid in found:
        if (window, series) in number:
            singles.append(Single(number[window, series], kernel, duration, moved, int(bool(returned))))
            more.append((start, tid))
    return singles, more


def _told(
    found: Sequence[Sequence[Any]],
    divided: Divided,
    singles: Sequence[Single],
    more: Sequence[tuple[int, int]],
    need: Need,
) -> list[tuple[Any, ...]]:
    """The rows of the table."""

    def kernel_of(row: Sequence[Any], kernel: int) -> int | None:
        return (views.NO_KERNEL if kernel == REST else kernel) if row[2] else None

    alike = divided.alike
    weight = alike.weight if need.most is None else np.minimum(alike.weight, need.most)
    records = []
    columns = (divided.row, divided.kernel, alike.duration_ns, alike.bytes, alike.errors, weight)
    for at, kernel, *figures, calls in zip(*(column.tolist() for column in columns), strict=True):
        row = found[at]
        start = int(row[3] * 1e9)
        records.append((row[0], row[1], kernel_of(row, kernel), *figures, start, None, 0, calls))
    for at, kernel in zip(divided.kept.tolist(), divided.kept_kernel.tolist(), strict=True):
        single = singles[at]
        row = found[single.row]
        figures = [single.duration_ns, single.bytes, single.error]
        records.append((row[0], row[1], kernel_of(row, kernel), *figures, *more[at], 1, 1))
    return records
