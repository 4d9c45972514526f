"""Makes temporary tables of calls from stored histograms. A row is one call, or several calls with the same
values; its weight is their number."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

import numpy as np

from stalltop.model.errors import StalltopError
from stalltop.recordings.views.batches import Batch, Head, batches
from stalltop.recordings.views.catalogue import EVENT_COLUMNS, NO_KERNEL, WEIGHT
from stalltop.recordings.views.divide import REST, divide
from stalltop.recordings.views.forms import Form, Need
from stalltop.recordings.views.patience import Patience

MOST_ROWS: Final = 4_000_000
"""Largest number of rows that a query may need in the place of one view of single calls. Each row stands for
one or several calls with the same values."""
MOST_CALLS: Final = 16_000_000
"""Largest number of calls that a query may need one by one in the place of one view of single calls."""
_DIGIT: Final = 4000
"""A weight is written with two digits of this base. The square of this base is ``MOST_CALLS``. To repeat a
row as many times as its weight says, the row is joined with a table of digits twice, once for each digit."""
_NARROWER: Final = (
    "add WHERE with window_start, cgroup_id, pid, op or layer; or ask only for COUNT, SUM, AVG or MAX"
)
_COLUMNS: Final = (
    "window_id INTEGER, series_id INTEGER, kernel_id INTEGER, duration_ns INTEGER, bytes INTEGER,"
    ' error INTEGER, start_ns INTEGER, tid INTEGER, kept INTEGER, "~calls" INTEGER'
)
_SQL: Final = {
    "window_start": "w.start AS window_start",
    "kernel_name": "k.kernel_name",
    **{name: f"s.{name}" for name in ("cgroup_id", "pid", "process", "layer", "op", "device")},
}
"""SQL of the columns of single calls that come from another table, by column."""


def unfold(connection: sqlite3.Connection, need: Need, patience: Patience) -> None:
    """Make the view of the calls that ``need`` describes. Raises StalltopError if there are too many calls.
    If the file is damaged, raises the errors of ``batches``."""
    table = f"~alike{need.name}"
    connection.execute(f'CREATE TEMP TABLE "{table}" ({_COLUMNS})')
    rows = calls = 0
    for batch in batches(connection, need, patience):
        records = _records(batch, need.most)
        rows += len(records)
        calls += sum(record[-1] for record in records)
        if rows > MOST_ROWS or (need.form is Form.SINGLE and calls > MOST_CALLS):
            raise StalltopError(f"this query needs more than {calls:,} calls one by one", _NARROWER)
        connection.executemany(f'INSERT INTO temp."{table}" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)', records)
    columns = ", ".join(_SQL.get(name, f"n.{name}") for name, _ in EVENT_COLUMNS)
    connection.execute(f'DROP VIEW IF EXISTS temp."{need.name}"')
    connection.execute(
        f'CREATE TEMP VIEW "{need.name}" AS SELECT {columns}{_weights(connection, need, table)}'
        " LEFT JOIN main.windows w ON w.window_id = n.window_id"
        ' LEFT JOIN temp."~series" s ON s.series_id = n.series_id'
        ' LEFT JOIN temp."~kernels" k ON k.kernel_id = n.kernel_id'
    )


def _weights(connection: sqlite3.Connection, need: Need, table: str) -> str:
    """Return the end of the SELECT. For ``Form.ALIKE``: the weight as the last column, and the FROM clause.
    For ``Form.SINGLE``: a FROM clause that repeats each row as many times as its weight says."""
    if need.form is not Form.SINGLE:
        return f', n."{WEIGHT}" FROM temp."{table}" n'
    [(most,)] = connection.execute(f'SELECT ifnull(max("{WEIGHT}"), 0) FROM temp."{table}"')
    connection.execute('CREATE TEMP TABLE IF NOT EXISTS "~digits" (digit INTEGER PRIMARY KEY)')
    connection.executemany(
        'INSERT OR IGNORE INTO temp."~digits" VALUES (?)', ((digit,) for digit in range(min(most, _DIGIT)))
    )
    return (
        f' FROM temp."{table}" n'
        f' CROSS JOIN temp."~digits" a ON a.digit <= (n."{WEIGHT}" - 1) / {_DIGIT}'
        f' CROSS JOIN temp."~digits" b ON b.digit < min({_DIGIT}, n."{WEIGHT}" - a.digit * {_DIGIT})'
    )


def _records(batch: Batch, most: int | None) -> list[tuple[Any, ...]]:
    """Return the rows of the temporary table for ``batch``. ``most`` is the largest weight that the query
    needs (``Need.most``)."""

    def kernel_of(head: Head, kernel: int) -> int | None:
        return (NO_KERNEL if kernel == REST else kernel) if head.launches else None

    divided = divide(batch.rows, batch.histograms, batch.parts, batch.singles)
    alike = divided.alike
    weight = alike.weight if most is None else np.minimum(alike.weight, most)
    columns = (divided.row, divided.kernel, alike.duration_ns, alike.bytes, alike.errors, weight)
    records = []
    for at, kernel, *figures, calls in zip(*(column.tolist() for column in columns), strict=True):
        head = batch.heads[at]
        whose = head.window_id, head.series_id, kernel_of(head, kernel)
        records.append((*whose, *figures, round(head.start * 1e9), None, 0, calls))
    for at, kernel in zip(divided.kept.tolist(), divided.kept_kernel.tolist(), strict=True):
        single, moment = batch.singles[at], batch.moments[at]
        head = batch.heads[single.row]
        whose = head.window_id, head.series_id, kernel_of(head, kernel)
        records.append((*whose, single.duration_ns, single.bytes, single.error, *moment, 1, 1))
    return records
