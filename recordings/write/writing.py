"""Writes windows into the tables of a file. Rows that several windows share are written once."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np

from stalltop.model.chain import Chain
from stalltop.model.errors import StalltopError
from stalltop.model.histograms import payload as hdr_payload
from stalltop.model.merge.merging import merge_rows
from stalltop.model.merge.packing import Peak
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import SPLITS, U64, Rows, Window
from stalltop.recordings.file import schema
from stalltop.recordings.file.records import codecs
from stalltop.recordings.file.seal import MOST_ROWS, sealed
from stalltop.recordings.file.values import Sql, checksum, stored_integer, stored_json, stored_text, storing

_KNOWN: Final = 1 << 16
"""Largest number of rows of a shared table whose numbers are cached. A row that is no longer in the cache is
written a second time."""
_KNOWN_TEXTS: Final = 512
"""Largest number of rows whose numbers are cached for each table in ``_TEXTS``. It is smaller because rows of
these tables have long texts that change often."""
_TEXTS: Final = ("coverage", "chain_texts")
_ADD_WINDOW: Final = f"INSERT INTO windows VALUES ({', '.join('?' * len(schema.WINDOWS.names))})"
_CODECS: Final = codecs(schema.RECORDS)
_real = storing(float)


def create(connection: sqlite3.Connection, kind: Literal["window", "recording"]) -> None:
    """Create the tables in an empty file."""
    for statement in schema.statements():
        connection.execute(statement)
    connection.execute("INSERT INTO about VALUES ('kind', ?)", (kind,))


class Writer:
    """Adds windows to the file of ``connection``, in which ``create`` has made the tables. The caller begins
    and commits transactions."""

    def __init__(
        self, connection: sqlite3.Connection, clocks: Mapping[str, tuple[int, int]] | None = None
    ) -> None:
        """``clocks`` has the offset of each host's clock from the clock of the file's first host, and the
        error of this offset, both in ns; hosts may be missing."""
        self._connection = connection
        self._clocks = clocks or {}
        self._shared: dict[str, _Shared] = {}
        self._chains: dict[str, Sequence[Chain]] = {}
        """By host: the chains of its newest window. ``add`` compares them with those of the next window to
        find out which chains began in it."""
        self.forget()

    def forget(self) -> None:
        """Fill the cache of shared rows again from the file. Call it after a rollback, and after shared rows
        were deleted."""
        before = self._shared
        self._shared = {
            table.name: _Shared(
                self._connection, table, before[table.name].next if table.name in before else 1
            )
            for table in schema.SHARED
        }

    def add(
        self, window: Window, level: int = 0, peak: Peak | None = None, window_id: int | None = None
    ) -> int:
        """Write ``window`` and return its number.

        ``level`` is the value of the column ``level``. ``peak`` is the peak of the windows from which
        ``window`` was merged; None for a window that was not merged. ``window_id`` is a number that is not
        used yet, by default the next one. Numbers determine the order of windows. Raises StalltopError if the
        window is too large, and sqlite3.Error.
        """
        numbers = _Numbers(self._shared, self._clocks, window)
        host = numbers.host(window.host)
        parts = _parts(window, numbers)
        for name, rows in parts.items():
            if len(rows) > MOST_ROWS:
                raise StalltopError(
                    f"the window is too large to save ({len(rows)} rows of {name})", "narrow it with a filter"
                )
        # The values of the columns of ``windows``, in the order of the columns, without number and checksum.
        values = [
            *(host, _real(window.start) or 0.0, _real(window.seconds) or 0.0, level, int(window.simulated)),
            int(window.rows.split_ns is not None),
            numbers.coverage(window),
            *_figures(window, Peak.of(window, self._chains.get(window.host)) if peak is None else peak),
        ]
        if peak is None:
            self._chains[window.host] = window.chains
        sums = sealed(values, parts)
        number = self._connection.execute(_ADD_WINDOW, (window_id, *values, sums)).lastrowid
        assert number is not None
        for table in schema.PARTS:
            rows = parts[table.name]
            if rows:
                self._connection.executemany(
                    f"INSERT INTO {table.name} VALUES ({number}, {_marks(len(table.columns) - 1)})", rows
                )
        return number


def _marks(n: int) -> str:
    return ", ".join("?" * n)


def _figures(window: Window, peak: Peak) -> list[Sql]:
    return [
        _real(window.coverage.cost_percent),
        stored_integer(window.evidence.swap_in_bytes),
        stored_integer(window.evidence.swap_out_bytes),
        stored_integer(window.calls.passed_over),
        _real(peak.lost_ms_per_s),
        peak.worst,
        peak.began,
    ]


def _parts(window: Window, numbers: _Numbers) -> dict[str, list[Sequence[Sql]]]:
    """Return the rows of ``window`` for each table of ``schema.PARTS``, without the column ``window_id``."""
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
        "open_calls": window.open_calls,
        "devices": window.devices.devices,
        "gone_devices": window.devices.gone,
        "system": () if window.system is None else (window.system,),
        "chains": window.chains,
    }
    rows, series = _distinct(window.rows, numbers)
    parts: dict[str, list[Sequence[Sql]]] = {
        "counts": _counts(rows, series, window),
        "histograms": list(enumerate(hdr_payload.payloads(rows.histograms))),
        "losses": [
            (place, stored_text(name), stored_integer(int(count)))
            for place, (name, count) in enumerate(window.loss.items())
        ],
    }
    for name, codec in _CODECS.items():
        parts[name] = [[place, *codec.row(record, numbers)] for place, record in enumerate(records[name])]
    return parts


def _distinct(rows: Rows, numbers: _Numbers) -> tuple[Rows, list[int]]:
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


def _counts(rows: Rows, series: Sequence[int], window: Window) -> list[Sequence[Sql]]:
    if not len(rows):
        return []

    def signed(column: U64) -> Any:
        return np.ascontiguousarray(column, np.uint64).view(np.int64)

    columns = [
        np.arange(len(rows)),
        np.array(series, np.int64),
        *(signed(column) for column in (rows.calls, rows.errors, rows.bytes, rows.total_ns, rows.max_ns)),
    ]
    if rows.split_ns is not None:
        columns += list(signed(rows.split_ns).T)
    table: list[list[Sql]] = np.column_stack(columns).tolist()
    unknown: list[Sql] = [None] * len(SPLITS) if rows.split_ns is None else []
    for key, row in zip(rows.keys, table, strict=True):
        normal = window.normals.get(key)
        row += unknown
        row += (None, None) if normal is None else map(stored_integer, normal)
    return list(table)


class _Shared:
    """Finds rows of one shared table, and adds rows to it."""

    def __init__(self, connection: sqlite3.Connection, table: schema.SqlTable, least: int) -> None:
        """New rows get numbers from ``least`` on, and above those of all rows in the table. So no number is
        used twice, because readers cache rows by number."""
        self._connection = connection
        self._long = table.name in _TEXTS
        self._most = _KNOWN_TEXTS if self._long else _KNOWN
        (number,) = table.key
        self._insert = f"INSERT INTO {table.name} VALUES ({_marks(len(table.names))})"
        self._numbers: dict[Any, int] = {}
        self.next = least
        """The number that the next new row gets."""
        found = connection.execute(
            f"SELECT {', '.join(table.names)} FROM {table.name} ORDER BY {number} DESC LIMIT ?",
            (self._most // 2,),
        ).fetchall()
        for *row, sums in reversed(found):
            at, *values = row
            self.next = max(self.next, at + 1)
            # Damaged rows are not cached, so that they are written again.
            with contextlib.suppress(ValueError):
                if checksum([row]) == sums:
                    self._numbers[self._key(tuple(values))] = at

    def number(self, values: tuple[Sql, ...]) -> int:
        """Return the number of the row that has these values. If there is no such row, add it."""
        key = self._key(values)
        found = self._numbers.get(key)
        if found is None:
            if len(self._numbers) >= self._most:
                kept = list(self._numbers.items())[self._most // 2 :]
                self._numbers = dict(kept)
            found = self.next
            self.next += 1
            self._connection.execute(self._insert, (found, *values, checksum([(found, *values)])))
            self._numbers[key] = found
        return found

    def _key(self, values: tuple[Sql, ...]) -> Any:
        return hashlib.blake2b(repr(values).encode(), digest_size=16).digest() if self._long else values


class _Numbers:
    """Returns the numbers of the shared rows to which one window refers."""

    def __init__(
        self, shared: Mapping[str, _Shared], clocks: Mapping[str, tuple[int, int]], window: Window
    ) -> None:
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
                *(stored_text(devices.driver), stored_text(devices.unavailable)),
                *(stored_json(window.evidence.unknown), stored_json(self._described)),
            )
        )
