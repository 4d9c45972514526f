"""Makes the views that queries can read, and the temporary tables that these views need."""

from __future__ import annotations

import sqlite3
from typing import Final

from stalltop.model.families import launches_kernel
from stalltop.recordings.views import containers
from stalltop.recordings.views.catalogue import EVENTS, NO_KERNEL, UNKNOWN, VIEWS
from stalltop.recordings.views.view import SqlView

_EVENTS: Final = (
    "CASE WHEN s.layer = 'host' THEN 'host_events' WHEN s.nested THEN 'nested_events'"
    " WHEN s.layer = 'nccl' THEN 'nccl_events' ELSE 'cuda_events' END"
)
_LAUNCHES: Final = 'NOT s.nested AND (s.layer, s.operation) IN (SELECT layer, op FROM temp."~launching")'

_STATEMENTS: Final = (
    'CREATE TEMP TABLE "~tenants" (tenant_id INTEGER PRIMARY KEY, cgroup_id INTEGER)',
    "CREATE TEMP TABLE containers (cgroup_id INTEGER PRIMARY KEY, container_id TEXT, name TEXT, kind TEXT,"
    " runtime TEXT, full_id TEXT, pod TEXT, namespace TEXT, host TEXT, tenant TEXT, cgroup_path TEXT,"
    " real_cgroup_id INTEGER, pod_container TEXT, pod_uid TEXT, user TEXT, labels TEXT)",
    'CREATE TEMP TABLE "~series" (series_id INTEGER PRIMARY KEY, cgroup_id INTEGER, pid INTEGER,'
    " process TEXT, layer TEXT, op TEXT, device TEXT, nested INTEGER, events TEXT, launches INTEGER)",
    'CREATE TEMP TABLE "~launching" (layer TEXT, op TEXT)',
    'CREATE TEMP TABLE "~kernels" (kernel_id INTEGER PRIMARY KEY, kernel_name TEXT)',
    'CREATE TEMP TABLE "~processes" (process_id INTEGER PRIMARY KEY, cgroup_id INTEGER, pid INTEGER,'
    " process TEXT)",
)
_FILL: Final = (
    'INSERT INTO temp."~series" SELECT s.series_id, t.cgroup_id, s.pid, s.process, s.layer, s.operation,'
    f" nullif(s.device, ''), s.nested, {_EVENTS}, {_LAUNCHES} FROM main.series s"
    ' LEFT JOIN temp."~tenants" t USING (tenant_id)',
    f"INSERT INTO temp.\"~kernels\" SELECT kernel_id, CASE name WHEN '' THEN '{UNKNOWN}' ELSE name END"
    " FROM main.kernels",
    f"INSERT INTO temp.\"~kernels\" VALUES ({NO_KERNEL}, '{UNKNOWN}')",
    'INSERT INTO temp."~processes" SELECT p.process_id, t.cgroup_id, p.pid, p.process FROM main.processes p'
    ' LEFT JOIN temp."~tenants" t USING (tenant_id)',
)


def make(connection: sqlite3.Connection) -> None:
    """Make the views. The views of single calls get their columns, but no rows: a query is rewritten to read
    other views in their place. If it cannot be rewritten, ``alike.unfold`` later replaces them by views with
    rows."""
    for statement in _STATEMENTS:
        connection.execute(statement)
    containers.make(connection)
    operations = connection.execute(
        "SELECT DISTINCT layer, operation FROM main.series WHERE layer IN ('runtime', 'driver')"
        " AND typeof(operation) = 'text'"
    ).fetchall()
    launching = [operation for operation in operations if launches_kernel(*operation)]
    connection.executemany('INSERT INTO temp."~launching" VALUES (?, ?)', launching)
    for statement in _FILL:
        connection.execute(statement)
    for view in VIEWS:
        if view.name in EVENTS:
            connection.execute(f"CREATE TEMP VIEW {view.name} AS {_nothing(view)}")
        elif view.select:
            connection.execute(f"CREATE TEMP VIEW {view.name} AS {view.select}")


def _nothing(view: SqlView) -> str:
    return "SELECT " + ", ".join(f"NULL AS {name}" for name in view.names) + " WHERE 0"
