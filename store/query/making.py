"""The views made in a connection, and the tables that they rest on."""

from __future__ import annotations

import sqlite3
from typing import Final

from store.query import containers
from store.query.views import BY_SERIES, EVENTS, NO_KERNEL, SERIES_SQL, UNKNOWN, VIEWS, View

_EVENTS: Final = (
    "CASE WHEN s.layer = 'host' THEN 'host_events' WHEN s.nested THEN 'nested_events'"
    " WHEN s.layer = 'nccl' THEN 'nccl_events' ELSE 'cuda_events' END"
)
_LAUNCHES: Final = (
    "s.layer IN ('runtime', 'driver') AND NOT s.nested"
    " AND (s.operation LIKE 'cu%Launch%Kernel%' OR s.operation IN ('cuLaunch', 'cuLaunchGrid',"
    " 'cuLaunchGridAsync'))"
)

_STATEMENTS: Final = (
    'CREATE TEMP TABLE "~tenants" (tenant_id INTEGER PRIMARY KEY, cgroup_id INTEGER)',
    "CREATE TEMP TABLE containers (cgroup_id INTEGER PRIMARY KEY, container_id TEXT, name TEXT, kind TEXT,"
    " runtime TEXT, full_id TEXT, pod TEXT, namespace TEXT, host TEXT, tenant TEXT, cgroup_path TEXT,"
    " real_cgroup_id INTEGER)",
    'CREATE TEMP TABLE "~series" (series_id INTEGER PRIMARY KEY, cgroup_id INTEGER, pid INTEGER,'
    " process TEXT, layer TEXT, op TEXT, nested INTEGER, events TEXT, launches INTEGER)",
    'CREATE TEMP TABLE "~kernels" (kernel_id INTEGER PRIMARY KEY, kernel_name TEXT)',
    'CREATE TEMP TABLE "~processes" (process_id INTEGER PRIMARY KEY, cgroup_id INTEGER, pid INTEGER,'
    " process TEXT)",
)
_FILL: Final = (
    'INSERT INTO temp."~series" SELECT s.series_id, t.cgroup_id, s.pid, s.process, s.layer, s.operation,'
    f' s.nested, {_EVENTS}, {_LAUNCHES} FROM main.series s LEFT JOIN temp."~tenants" t USING (tenant_id)',
    f"INSERT INTO temp.\"~kernels\" SELECT kernel_id, CASE name WHEN '' THEN '{UNKNOWN}' ELSE name END"
    " FROM main.kernels",
    f"INSERT INTO temp.\"~kernels\" VALUES ({NO_KERNEL}, '{UNKNOWN}')",
    'INSERT INTO temp."~processes" SELECT p.process_id, t.cgroup_id, p.pid, p.process FROM main.processes p'
    ' LEFT JOIN temp."~tenants" t USING (tenant_id)',
)


def make(connection: sqlite3.Connection) -> None:
    """Make the views; those of single calls are there with their columns, and without rows."""
    for statement in _STATEMENTS:
        connection.execute(statement)
    containers.make(connection)
    for statement in _FILL:
        connection.execute(statement)
    for view in VIEWS:
        if view.name in EVENTS:
            connection.execute(f"CREATE TEMP VIEW {view.name} AS {_nothing(view)}")
        elif view.select:
            connection.execute(f"CREATE TEMP VIEW {view.name} AS {view.select}")
    for name in EVENTS:
        for statement in _sums(name):
            connection.execute(statement)


def _nothing(view: View) -> str:
    return "SELECT " + ", ".join(f"NULL AS {name}" for name in view.names) + " WHERE 0"


def sums_of(events: str, *, kernels: bool) -> str:
    """The view of the stored sums of a view of single calls, with kernel names or without."""
    return f"~{events}_by_kernel" if kernels and events == "cuda_events" else f"~{events}"


def _sums(events: str) -> list[str]:
    """What makes the views of the sums of ``events``."""
    columns = 'n.calls AS "~calls", n.total_ns AS "~total_ns", n.max_ns AS "~max_ns", n.errors AS "~errors",'
    moved, nothing = ' n.bytes AS "~bytes"', ' 0 AS "~bytes"'
    plain = (
        f'SELECT {SERIES_SQL}, NULL AS kernel_name, {columns}{moved}, n.series_id AS "~series_id"'
        f" FROM main.counts n {BY_SERIES}"
        f" WHERE n.calls > 0 AND s.events = '{events}'"
    )
    made = [f'CREATE TEMP VIEW "{sums_of(events, kernels=False)}" AS {plain}']
    if events == "cuda_events":
        by_kernel = (
            f"{plain} AND NOT s.launches"
            f" UNION ALL SELECT {SERIES_SQL}, k.kernel_name, {columns}{nothing}, n.series_id"
            f" FROM main.kernel_counts n {BY_SERIES}"
            ' LEFT JOIN temp."~kernels" k ON k.kernel_id = n.kernel_id'
            " WHERE n.calls > 0 AND s.launches"
            f" UNION ALL SELECT {SERIES_SQL}, '{UNKNOWN}', {columns}{moved}, n.series_id"
            f' FROM temp."~rest" n {BY_SERIES}'
        )
        made += [
            'CREATE TEMP TABLE "~rest" (window_id INTEGER, series_id INTEGER, calls INTEGER, errors INTEGER,'
            " bytes INTEGER, total_ns INTEGER, max_ns INTEGER, exact INTEGER)",
            f'CREATE TEMP VIEW "{sums_of(events, kernels=True)}" AS {by_kernel}',
        ]
    return made


def find_rest(connection: sqlite3.Connection) -> bool:
    """Work out the launches that kernel_counts has not. Whether the longest of them are all known."""
    if connection.execute('SELECT 1 FROM temp."~rest"').fetchone() is None:
        connection.execute(
            'INSERT INTO temp."~rest" SELECT n.window_id, n.series_id, n.calls - ifnull(k.calls, 0),'
            " max(n.errors - ifnull(k.errors, 0), 0), n.bytes, max(n.total_ns - ifnull(k.total_ns, 0), 0),"
            " n.max_ns, n.max_ns > ifnull(k.max_ns, -1)"
            ' FROM main.counts n CROSS JOIN temp."~series" s ON s.series_id = n.series_id'
            " LEFT JOIN (SELECT window_id, series_id, sum(calls) AS calls, sum(errors) AS errors,"
            " sum(total_ns) AS total_ns, max(max_ns) AS max_ns FROM main.kernel_counts"
            " GROUP BY window_id, series_id) k ON k.window_id = n.window_id AND k.series_id = n.series_id"
            " WHERE s.launches AND n.calls > ifnull(k.calls, 0)"
        )
    return connection.execute('SELECT 1 FROM temp."~rest" WHERE NOT exact').fetchone() is None
