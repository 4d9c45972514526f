"""Makes windows from the rows of a file. Checks every value: the file may come from a stranger."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast, get_type_hints

import numpy as np

from stalltop.files import plain
from stalltop.model.calls import CapturedCalls
from stalltop.model.devices.device import Devices
from stalltop.model.evidence import Evidence
from stalltop.model.histograms import payload as hdr_payload
from stalltop.model.merge.merging import merge_rows
from stalltop.model.merge.packing import Peak
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import SPLITS, Coverage, Rows, Window
from stalltop.recordings.file import schema
from stalltop.recordings.file.records import codecs
from stalltop.recordings.file.seal import MOST_ROWS, sealed
from stalltop.recordings.file.values import Sql, checksum, read_flag, read_integer, reading
from stalltop.recordings.read import limits as bounds

_TABLES: Final = {table.name: table for table in schema.SHARED}
_CODECS: Final = codecs(schema.RECORDS)
_KNOWN: Final = 1 << 16
"""Largest number of rows that are cached of each shared table."""
_WINDOW: Final = f"SELECT {', '.join(schema.WINDOWS.names[1:])} FROM windows WHERE window_id = ?"
_PEAK: Final = "SELECT lost_ms_per_s, worst, began FROM windows WHERE window_id = ?"
_PARTS: Final = {
    table.name: f"SELECT {', '.join(table.names[1:])} FROM {table.name} WHERE window_id = ?"
    f" ORDER BY place LIMIT {MOST_ROWS + 1}"
    for table in schema.PARTS
}
_SHARED: Final = {
    table.name: f"SELECT {', '.join(table.names)} FROM {table.name} WHERE {table.key[0]} = ?"
    for table in schema.SHARED
}
_EVIDENCE: Final = {
    "charges": "charges",
    "block_io": "block_io",
    "tenants": "tenant_use",
    "processes": "process_use",
    "ranks": "ranks",
    "events": "events",
    "activity": "activity",
    "overlaps": "overlaps",
    "network_ports": "network_ports",
}
"""Fields of ``Evidence`` that are lists of records, each with the table that stores them."""
_TENANT: Final = {
    name: reading(hint, f"tenants.{name}")
    for name, hint in get_type_hints(Tenant, include_extras=True).items()
}
_COVERAGE_HINTS: Final = get_type_hints(Coverage, include_extras=True) | {
    "driver": str,
    "devices_unavailable": str,
    "unknown": tuple[str, ...],
    "tenants": tuple[int, ...],
}
_COVERAGE: Final = {
    name: reading(hint, f"coverage.{name}")
    for name, hint in _COVERAGE_HINTS.items()
    if name != "cost_percent"
}


class Decoder:
    """Reads windows of one file by their numbers. Shared rows are read when they are needed, and cached."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[str, dict[Sql, Any]] = {table.name: {} for table in schema.SHARED}
        self._keys: dict[Sql, RowKey] = {}

    def window(self, number: int) -> Window:
        """Return the window ``number``. Raises KeyError if there is none, ValueError if a value in it is
        wrong, and sqlite3.Error if the file cannot be read."""
        values, parts = self._checked(number)
        return self._window(dict(zip(schema.WINDOWS.names[1:-1], values, strict=True)), parts)

    def check(self, number: int) -> None:
        """Compare a window with its checksum, which is faster than reading it by ``window``. Raises the same
        errors as ``window``. Shared rows are not checked (``check_shared`` does that)."""
        self._checked(number)

    def check_shared(self) -> None:
        """Compare all shared rows with their checksums. Raises ValueError if a row is damaged, and
        sqlite3.Error if the file cannot be read."""
        for table, select in _SHARED.items():
            for row in self._connection.execute(select.partition(" WHERE ")[0]):
                self._check_row(table, row)

    def _check_row(self, table: str, row: Sequence[Sql]) -> None:
        """Compare a shared row with its checksum. ``row`` begins with the number of the row and ends with the
        checksum. Raises ValueError if the row is damaged."""
        if checksum([row[:-1]]) != row[-1]:
            raise ValueError(f"row {row[0]!r} of {table} is damaged")

    def _checked(self, number: int) -> tuple[Sequence[Sql], dict[str, list[Sequence[Sql]]]]:
        """Return the row of a window without number and checksum, and the rows of its parts. All values are
        as they are stored. Raises ValueError if the checksum does not match."""
        found = self._connection.execute(_WINDOW, (number,)).fetchone()
        if found is None:
            raise KeyError(number)
        *values, expected = found
        parts: dict[str, list[Sequence[Sql]]] = {}
        for name, select in _PARTS.items():
            rows = parts[name] = self._connection.execute(select, (number,)).fetchall()
            if len(rows) > MOST_ROWS:
                raise ValueError(f"{name} has too many rows")
        if sealed(values, parts) != expected:
            raise ValueError("its checksum does not match")
        return values, parts

    def peak(self, number: int) -> Peak:
        """Return the peak of a window. The peak of a merged window has the highest loss and the worst
        severities of the windows from which it was merged. Raises the same errors as ``window``."""
        found = self._connection.execute(_PEAK, (number,)).fetchone()
        if found is None:
            raise KeyError(number)
        lost, worst, began = found
        return Peak(
            plain.number(lost or 0.0, "lost"), plain.integer(worst, "worst"), plain.integer(began, "began")
        )

    def values(self, table: str, number: Sql) -> Sequence[Any]:
        """Return the values of a row of a shared table (``records.Resolving``)."""
        known = self._known[table]
        found = known.get(number)
        if found is None:
            row = self._row(table, number)
            decode = _DECODE.get(table)
            if len(known) >= _KNOWN:
                known.clear()
            found = known[number] = row if decode is None else decode(self, row)
        return cast(Sequence[Any], found)

    def key(self, number: Sql) -> RowKey:
        """Return the ``RowKey`` of series ``number``."""
        found = self._keys.get(number)
        if found is None:
            if len(self._keys) >= _KNOWN:
                self._keys.clear()
            host = self._row("series", number)[0]
            found = self._keys[number] = RowKey(self.values("hosts", host)[0], *self.values("series", number))
        return found

    def _row(self, table: str, number: Sql) -> tuple[Sql, ...]:
        """Return a row of a shared table as it is stored, without number and checksum."""
        if type(number) is not int:
            raise ValueError(f"a reference to a row of {table} is not an integer")
        found = self._connection.execute(_SHARED[table], (number,)).fetchone()
        if found is None:
            raise ValueError(f"row {number} of {table} is missing")
        self._check_row(table, found)
        return tuple(found[1:-1])

    def tenant(self, number: Sql) -> Tenant:
        """Return the tenant that is described by row ``number`` of the table ``tenants``."""
        _, tenant_id, _, *others = self._row("tenants", number)
        names = _TABLES["tenants"].names[4:-1]
        values = {"id": tenant_id} | dict(zip(names, others, strict=True))
        return Tenant(**{name: _TENANT[name](value) for name, value in values.items()})

    def _window(self, head: Mapping[str, Sql], parts: Mapping[str, Sequence[Sequence[Sql]]]) -> Window:
        lists = {
            name: tuple([codec.record(row[1:], self) for row in parts[name]])
            for name, codec in _CODECS.items()
        }
        start, seconds = plain.number(head["start"], "start"), plain.number(head["seconds"], "seconds")
        bounds.check_span(start, seconds)
        told, tenants = self.values("coverage", head["coverage_id"])
        said: dict[str, Any] = dict(told)
        driver, unavailable, unknown = (
            said.pop(name) for name in ("driver", "devices_unavailable", "unknown")
        )
        records: dict[str, Any] = {name: lists[table] for name, table in _EVIDENCE.items()}
        evidence = Evidence(
            **records,
            swap_in_bytes=read_integer(head["swap_in_bytes"], "swap_in_bytes"),
            swap_out_bytes=read_integer(head["swap_out_bytes"], "swap_out_bytes"),
            unknown=unknown,
        )
        bounds.check_evidence(evidence)
        bounds.check_chains(lists["chains"])
        bounds.check_kernels(lists["kernel_counts"])
        bounds.check_calls(lists["calls"])
        cost = head["cost_percent"]
        rows = self._counts(parts, read_flag(head["split"], "split"))
        return Window(
            start=start,
            seconds=seconds,
            host=self.values("hosts", head["host_id"])[0],
            rows=rows,
            tenants={tenant.id: tenant for tenant in tenants},
            open_calls=lists["open_calls"],
            devices=Devices(lists["devices"], unavailable, driver, lists["gone_devices"]),
            system=lists["system"][0] if lists["system"] else None,
            loss={
                plain.text(name, "losses.name"): read_integer(count, "losses.count")
                for _, name, count in parts["losses"]
            },
            coverage=Coverage(
                **said, cost_percent=0.0 if cost is None else plain.number(cost, "cost_percent")
            ),
            simulated=read_flag(head["simulated"], "simulated"),
            evidence=evidence,
            chains=lists["chains"],
            kernels=lists["kernel_counts"],
            calls=CapturedCalls(lists["calls"], read_integer(head["calls_passed_over"], "calls_passed_over")),
            normals=self._normals(parts["counts"]),
            allocations=lists["allocations"],
        )

    def _normals(self, counts: Sequence[Sequence[Sql]]) -> dict[RowKey, tuple[int, int]]:
        return {
            self.key(row[1]): (
                read_integer(row[-2], "counts.normal_p50_ns"),
                read_integer(row[-1], "counts.normal_p99_ns"),
            )
            for row in counts
            if row[-2] is not None
        }

    def _counts(self, parts: Mapping[str, Sequence[Sequence[Sql]]], split: bool) -> Rows:
        counts, payloads = parts["counts"], parts["histograms"]
        if [row[0] for row in counts] != [row[0] for row in payloads]:
            raise ValueError("histograms and counts have different rows")
        n, width = len(counts), 5 + (len(SPLITS) if split else 0)
        keys = tuple([self.key(row[1]) for row in counts])
        figures = [figure for row in counts for figure in row[2 : 2 + width]]
        if set(map(type, figures)) - {int}:
            raise ValueError("counts: a count is not an integer")
        table = np.array(figures, np.int64).view(np.uint64).reshape(n, width)
        calls, errors, moved, total, longest = (np.ascontiguousarray(column) for column in table.T[:5])
        rows = Rows(
            *(keys, calls, errors, moved, total, longest),
            histograms=hdr_payload.histograms([cast(bytes, payload) for _, payload in payloads]),
            split_ns=np.ascontiguousarray(table[:, 5:]) if split else None,
        )
        if len(set(keys)) == n:
            return rows
        # Two rows can have the same key, because unprintable characters are removed from names when they are
        # read.
        return merge_rows([rows.take(np.arange(1)), rows.take(np.arange(1, n))])


def _host(_: Decoder, row: tuple[Sql, ...]) -> tuple[str]:
    return (plain.text(row[0], "hosts.name"),)


def _kernel(_: Decoder, row: tuple[Sql, ...]) -> tuple[str]:
    return (plain.text(row[0], "kernels.name"),)


def _tenant_id(_: Decoder, row: tuple[Sql, ...]) -> tuple[str]:
    return (plain.text(row[1], "tenants.id"),)


def _process(decoder: Decoder, row: tuple[Sql, ...]) -> tuple[str, int, str]:
    tenant, pid, process = row
    return (
        decoder.values("tenants", tenant)[0],
        read_integer(pid, "processes.pid"),
        plain.text(process, "processes.process"),
    )


def _series(decoder: Decoder, row: tuple[Sql, ...]) -> tuple[Any, ...]:
    _, tenant, pid, process, layer, operation, nested, device = row
    return (
        decoder.values("tenants", tenant)[0],
        read_integer(pid, "series.pid"),
        plain.text(process, "series.process"),
        plain.text(layer, "series.layer"),
        plain.text(operation, "series.operation"),
        read_flag(nested, "series.nested"),
        plain.text(device, "series.device"),
    )


def _coverage(decoder: Decoder, row: tuple[Sql, ...]) -> tuple[dict[str, Any], list[Tenant]]:
    names = _TABLES["coverage"].names[1:-1]
    said = {name: _COVERAGE[name](value) for name, value in zip(names, row, strict=True)}
    return said, [decoder.tenant(number) for number in said.pop("tenants")]


_DECODE: Final[dict[str, Callable[[Decoder, tuple[Sql, ...]], Sequence[Any]]]] = {
    "hosts": _host,
    "kernels": _kernel,
    "tenants": _tenant_id,
    "processes": _process,
    "series": _series,
    "coverage": _coverage,
}
"""Functions that convert the rows of shared tables, by table. Rows of other tables are used as they are
stored."""
