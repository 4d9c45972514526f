"""Makes views of stored sums, which replace views of single calls. In these views, each row stands for
several calls.

A row has the calls of one series in one window. If the query does not distinguish windows, it has the calls
of the series in all windows. If the query uses CUDA kernels, each CUDA kernel has a row of its own.
"""

from __future__ import annotations

import sqlite3

from stalltop.recordings.views.catalogue import BY_SERIES, PLACE, SERIES_SQL, UNKNOWN, WHO_SQL


def sums_of(events: str, *, kernels: bool, windows: bool) -> str:
    """Return the name of the view that ``make`` makes in place of ``events``, a view of single calls."""
    of_kernels = "_by_kernel" if kernels and events == "cuda_events" else ""
    return f"~{events}{'' if windows else '_of_all'}{of_kernels}"


def make(connection: sqlite3.Connection, events: str, *, kernels: bool, windows: bool) -> bool:
    """Make the view that ``sums_of`` names, unless it already exists. Return whether the longest call of each
    row is known."""
    kernels = kernels and events == "cuda_events"
    tables = ("main.counts", "main.kernel_counts", 'temp."~rest"')
    if not windows:
        tables = ('temp."~all"', 'temp."~all_kernels"', 'temp."~all_rest"')
        _add_up(connection, kernels=kernels)
    counts, kernel_counts, rest = tables
    columns = 'n.calls AS "~calls", n.total_ns AS "~total_ns", n.max_ns AS "~max_ns", n.errors AS "~errors",'
    moved, nothing = ' n.bytes AS "~bytes"', " 0"
    who = SERIES_SQL if windows else f"NULL AS window_id, NULL AS window_start, {WHO_SQL}"
    join = BY_SERIES if windows else 'CROSS JOIN temp."~series" s ON s.series_id = n.series_id'
    place = f', n.place AS "{PLACE}"' if windows and not kernels else ""
    select = (
        f"SELECT {who}, NULL AS kernel_name, {columns}{moved}{place} FROM {counts} n {join}"
        f" WHERE n.calls > 0 AND s.events = '{events}'"
    )
    if kernels:
        _find_rest(connection, *tables, windows=windows)
        select += (
            f" AND NOT s.launches UNION ALL SELECT {who}, k.kernel_name, {columns}{nothing}"
            f' FROM {kernel_counts} n {join} LEFT JOIN temp."~kernels" k ON k.kernel_id = n.kernel_id'
            f" WHERE n.calls > 0 AND s.launches"
            f" UNION ALL SELECT {who}, '{UNKNOWN}', {columns}{moved} FROM {rest} n {join}"
        )
    name = sums_of(events, kernels=kernels, windows=windows)
    connection.execute(f'CREATE TEMP VIEW IF NOT EXISTS "{name}" AS {select}')
    if not kernels:
        return True
    return connection.execute(f"SELECT 1 FROM {rest} WHERE NOT exact").fetchone() is None


def _add_up(connection: sqlite3.Connection, *, kernels: bool) -> None:
    """Add up the counts of all windows by series. With ``kernels``, also add up the counts of CUDA
    kernels."""
    if not _is_there(connection, "~all"):
        connection.execute(
            'CREATE TEMP TABLE "~all" AS SELECT series_id, sum(calls) AS calls, sum(errors) AS errors,'
            " sum(bytes) AS bytes, sum(total_ns) AS total_ns, max(max_ns) AS max_ns FROM main.counts"
            " WHERE calls > 0 GROUP BY series_id"
        )
    if kernels and not _is_there(connection, "~all_kernels"):
        connection.execute(
            'CREATE TEMP TABLE "~all_kernels" AS SELECT series_id, kernel_id, sum(calls) AS calls,'
            " sum(errors) AS errors, sum(total_ns) AS total_ns, max(max_ns) AS max_ns"
            " FROM main.kernel_counts WHERE calls > 0 GROUP BY series_id, kernel_id"
        )


def _find_rest(
    connection: sqlite3.Connection, counts: str, kernel_counts: str, rest: str, *, windows: bool
) -> None:
    """Make a table of the launches of unknown CUDA kernels: launches that no row of ``kernel_counts``
    counts."""
    if _is_there(connection, rest.split('"')[1]):
        return
    key = "window_id, series_id" if windows else "series_id"
    same = "k.window_id = n.window_id AND k.series_id" if windows else "k.series_id"
    connection.execute(
        f"CREATE TEMP TABLE {rest.partition('.')[2]} AS"
        f" SELECT {'n.window_id, ' if windows else ''}n.series_id, n.calls - ifnull(k.calls, 0) AS calls,"
        " max(n.errors - ifnull(k.errors, 0), 0) AS errors, n.bytes,"
        " max(n.total_ns - ifnull(k.total_ns, 0), 0) AS total_ns, n.max_ns,"
        " n.max_ns > ifnull(k.max_ns, -1) AS exact"
        f' FROM {counts} n CROSS JOIN temp."~series" s ON s.series_id = n.series_id'
        f" LEFT JOIN (SELECT {key}, sum(calls) AS calls, sum(errors) AS errors, sum(total_ns) AS total_ns,"
        f" max(max_ns) AS max_ns FROM {kernel_counts} WHERE calls > 0 GROUP BY {key}) k"
        f" ON {same} = n.series_id"
        " WHERE s.launches AND n.calls > ifnull(k.calls, 0)"
    )


def _is_there(connection: sqlite3.Connection, table: str) -> bool:
    found = connection.execute("SELECT 1 FROM temp.sqlite_master WHERE name = ?", (table,))
    return found.fetchone() is not None
