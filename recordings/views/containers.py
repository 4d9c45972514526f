"""Makes the table ``containers``: a row for each tenant, with a unique number and a unique short name."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_SHORT: Final = 12
"""Number of digits of a container id that container runtimes show, for example in ``docker ps``."""


@dataclass(slots=True)
class _TenantRow:
    """A tenant, as in the last of its rows in ``tenants`` that describe it; if none does, as in its last
    row."""

    number: int
    id: str
    host: str
    name: str
    kind: str
    runtime: str
    full_id: str
    pod: str
    namespace: str
    cgroup_id: int
    cgroup_path: str
    container: str
    pod_uid: str
    user: str
    labels: str

    @property
    def short_id(self) -> str:
        return self.full_id[:_SHORT] or self.id or str(self.number)


def make(connection: sqlite3.Connection) -> None:
    """Fill two temporary tables: ``containers``, and ``~tenants``, which has the number of the container for
    each row of ``tenants``."""
    found: dict[tuple[str, str], _TenantRow] = {}
    key_of: dict[int, tuple[str, str]] = {}
    rows = connection.execute(
        "SELECT t.tenant_id, t.described, t.id, h.name, t.name, t.kind, t.runtime, t.container_id, t.pod,"
        " t.namespace, t.cgroup_id, t.cgroup_path, t.container, t.pod_uid, t.user, t.labels"
        " FROM main.tenants t JOIN main.hosts h USING (host_id)"
        " ORDER BY t.described, t.tenant_id"
    )
    for number, _described, identity, host, *rest in rows:
        key = host, identity
        key_of[number] = key
        found[key] = _TenantRow(number, identity, host, *rest)
    tenants = list(found.values())
    numbers = dict(zip(found, _numbers(tenants), strict=True))
    connection.executemany(
        "INSERT INTO temp.containers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(number, label, one.name or label, one.kind, one.runtime, one.full_id, one.pod),
                *(one.namespace, one.host, one.id, one.cgroup_path, one.cgroup_id),
                *(one.container, one.pod_uid, one.user, one.labels),
            )
            for number, label, one in zip(numbers.values(), _labels(tenants), tenants, strict=True)
        ],
    )
    connection.executemany(
        'INSERT INTO temp."~tenants" VALUES (?, ?)', [(row, numbers[key]) for row, key in key_of.items()]
    )


def _numbers(tenants: Sequence[_TenantRow]) -> list[int]:
    """Return the number of each tenant. It is the cgroup id of the tenant, if this is known and unique;
    otherwise a negative number."""
    often = Counter(one.cgroup_id for one in tenants)
    return [
        one.cgroup_id if one.cgroup_id > 0 and often[one.cgroup_id] == 1 else -one.number for one in tenants
    ]


def _labels(tenants: Sequence[_TenantRow]) -> list[str]:
    """Return a unique name for each tenant. If several tenants have the same name, suffixes are added until
    the names differ: first the short id, then the host, then the number."""
    labels = [one.name or (one.short_id if one.id else one.host) for one in tenants]
    for additions in (
        [one.short_id for one in tenants],
        [one.host for one in tenants],
        [str(one.number) for one in tenants],
    ):
        often = Counter(labels)
        labels = [
            label if often[label] == 1 else f"{label}@{addition}"
            for label, addition in zip(labels, additions, strict=True)
        ]
    return labels
