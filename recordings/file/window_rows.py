"""Converts a window to rows of the tables of ``schema``, for files and for messages. Rows that windows share
get their numbers from the caller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from stalltop.model.merge.merging import merge_rows
from stalltop.model.merge.packing import Peak
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import Rows, Window
from stalltop.recordings.file import schema
from stalltop.recordings.file.records import codecs
from stalltop.recordings.file.values import Sql, stored_integer, stored_json, stored_text, storing

_CODECS: Final = codecs(schema.RECORDS)
_real = storing(float)


class SharedRows(Protocol):
    """The rows of one shared table."""

    def number(self, values: tuple[Sql, ...]) -> int:
        """Return the number of the row that has these values. If there is no such row, add it."""
        ...


def window_values(window: Window, numbers: Numbers, peak: Peak, level: int = 0) -> list[Sql]:
    """Return the values of the columns of ``schema.WINDOWS``, in their order, without number and checksum."""
    return [
        *(numbers.host(window.host), _real(window.start) or 0.0, _real(window.seconds) or 0.0),
        *(level, int(window.simulated), int(window.rows.split_ns is not None), numbers.coverage(window)),
        _real(window.coverage.cost_percent),
        stored_integer(window.evidence.swap_in_bytes),
        stored_integer(window.evidence.swap_out_bytes),
        stored_integer(window.calls.passed_over),
        _real(peak.lost_ms_per_s),
        peak.worst,
        peak.began,
    ]


def record_rows(window: Window, numbers: Numbers) -> dict[str, list[Sequence[Sql]]]:
    """Return the rows of ``window`` for the tables of ``schema.RECORDS`` and for ``losses``, without the
    column ``window_id``."""
    evidence = window.evidence
    records: Mapping[str, Iterable[Any]] = {
        "kernel_counts": window.kernels,
        "charges": evidence.charges,
        "block_io": evidence.block_io,
        "tenant_use": evidence.tenants,
        "process_use": evidence.processes,
        "ranks": evidence.ranks,
        "events": evidence.events,
        "activity": evidence.activity,
        "overlaps": evidence.overlaps,
        "network_ports": evidence.network_ports,
        "allocations": window.allocations,
        "calls": window.calls.kept,
        "stack_counts": window.stacks,
        "open_calls": window.open_calls,
        "devices": window.devices.devices,
        "gone_devices": window.devices.gone,
        "system": () if window.system is None else (window.system,),
        "chains": window.chains,
    }
    found: dict[str, list[Sequence[Sql]]] = {
        name: [[place, *codec.row(record, numbers)] for place, record in enumerate(records[name])]
        for name, codec in _CODECS.items()
    }
    found["losses"] = [
        (place, stored_text(name), stored_integer(int(count)))
        for place, (name, count) in enumerate(window.loss.items())
    ]
    return found


def distinct(rows: Rows, numbers: Numbers) -> tuple[Rows, list[int]]:
    """Return ``rows``, and the numbers of their series. Rows whose names become equal in ``stored_text`` are
    added up."""
    series = [numbers.series(key.host, *key[1:]) for key in rows.keys]
    if len(set(series)) == len(series):
        return rows, series
    first: dict[int, RowKey] = {}
    for key, number in zip(rows.keys, series, strict=True):
        first.setdefault(number, key)
    alike = Rows(
        tuple(first[number] for number in series),
        *(rows.calls, rows.errors, rows.bytes, rows.total_ns, rows.max_ns, rows.histograms, rows.split_ns),
    )
    # ``merge_rows`` adds up rows with equal keys, but returns a single part unchanged. So it gets two parts.
    halves = [alike.take(np.arange(1)), alike.take(np.arange(1, len(alike)))]
    return merge_rows(halves), list(first)


class Numbers:
    """Returns the numbers of the shared rows to which one window refers."""

    def __init__(
        self, shared: Mapping[str, SharedRows], clocks: Mapping[str, tuple[int, int]], window: Window
    ) -> None:
        """``clocks`` has the offset of each host's clock from the clock of the file's first host, and the
        error of this offset, both in ns; hosts may be missing."""
        self._shared = shared
        self._clocks = clocks
        self._hosts: dict[str, int] = {}
        self._host = self.host(window.host)
        self._tenants: dict[str, int] = {}
        # Tenants get their numbers before anything else, so that the numbers do not depend on the order of
        # records.
        for tenant in window.tenants.values():
            self._tenants[tenant.id] = self._tenant(tenant, True)
        self._described = list(self._tenants.values())

    def host(self, name: str) -> int:
        """Return the number of the host ``name``."""
        found = self._hosts.get(name)
        if found is None:
            stored = stored_text(name)
            offset, error = self._clocks.get(name, (None, None))
            found = self._hosts[name] = self._shared["hosts"].number((stored, offset, error))
        return found

    def number(self, table: str, values: tuple[Any, ...]) -> int:
        """Return the number of the row with these values (``recordings.file.records.Referring``)."""
        if table == "series":
            return self.series(None, *values)
        if table == "processes":
            tenant, pid, process = values
            values = (self.tenant(tenant), stored_integer(pid), stored_text(process))
        elif table == "tenants":
            return self.tenant(*values)
        elif table == "kernels":
            values = (stored_text(*values),)
        return self._shared[table].number(values)

    def series(
        self,
        host: str | None,
        tenant: str,
        pid: int,
        process: str,
        layer: str,
        operation: str,
        nested: bool = False,
        device: str = "",
    ) -> int:
        """Return the number of a series. If ``host`` is None, the series is on the host of the window."""
        return self._shared["series"].number(
            (
                *(self._host if host is None else self.host(host), self.tenant(tenant), stored_integer(pid)),
                *(stored_text(process), stored_text(layer), stored_text(operation), int(nested)),
                stored_text(device),
            )
        )

    def tenant(self, tenant_id: str) -> int:
        """Return the number of the row for a tenant. If the window does not describe the tenant, this row has
        only its id."""
        found = self._tenants.get(tenant_id)
        if found is None:
            found = self._tenants[tenant_id] = self._tenant(Tenant(tenant_id, ""), False)
        return found

    def _tenant(self, tenant: Tenant, described: bool) -> int:
        return self._shared["tenants"].number(
            (
                *(self._host, stored_text(tenant.id), int(described), stored_text(tenant.name), tenant.kind),
                *(stored_text(tenant.runtime), stored_text(tenant.container_id), stored_text(tenant.pod)),
                *(stored_text(tenant.namespace), stored_integer(tenant.cgroup_id)),
                *(
                    stored_text(tenant.cgroup_path),
                    stored_text(tenant.container),
                    stored_text(tenant.pod_uid),
                ),
                *(stored_text(tenant.user), stored_json(tenant.labels)),
            )
        )

    def coverage(self, window: Window) -> int:
        """Return the number of the row of ``coverage`` that ``window`` refers to."""
        coverage, devices = window.coverage, window.devices
        return self._shared["coverage"].number(
            (
                *(stored_integer(coverage.attached), stored_integer(coverage.functions)),
                *(stored_json(coverage.libraries), stored_json(coverage.missing)),
                *(stored_integer(coverage.processes), _real(coverage.probe_ns)),
                *(stored_text(coverage.way), stored_text(coverage.tracing)),
                *(stored_json(coverage.scheduled), stored_json(coverage.schedulable)),
                None if coverage.tracer is None else stored_json(coverage.tracer),
                *(stored_text(devices.driver), stored_text(devices.unavailable)),
                *(stored_json(window.evidence.unknown), stored_json(self._described)),
            )
        )
