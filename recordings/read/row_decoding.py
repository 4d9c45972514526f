"""Makes windows from rows of tables, which come from a file or a message. Checks every value: it may come
from a stranger."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, cast, get_type_hints

import numpy as np

from stalltop.files import plain
from stalltop.model.calls import CapturedCalls
from stalltop.model.devices.device import Devices
from stalltop.model.evidence import Evidence
from stalltop.model.merge.merging import merge_rows
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import Coverage, Rows, Window
from stalltop.recordings.file import schema
from stalltop.recordings.file.recent import Recent
from stalltop.recordings.file.records import codecs
from stalltop.recordings.file.values import Sql, read_flag, read_integer, reading
from stalltop.recordings.read import limits as bounds

_TABLES: Final = {table.name: table for table in schema.SHARED}
_CODECS: Final = codecs(schema.RECORDS)
_KNOWN: Final = 1 << 15
"""Rows of each shared table that are cached: those that were used last, at most twice as many."""
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


class RowDecoder(ABC):
    """Makes the values of a window from its rows. A row that several windows share is read at its first use,
    and kept."""

    def __init__(self) -> None:
        self._known: dict[str, Recent[Hashable, Any]] = {
            table.name: Recent(_KNOWN) for table in schema.SHARED
        }
        self._keys: Recent[Hashable, RowKey] = Recent(_KNOWN)

    @abstractmethod
    def _row(self, table: str, number: Sql) -> tuple[Sql, ...]:
        """Return a row of a shared table as it is stored, without number and checksum. Raises ValueError if
        there is no such row."""

    def _name(self, table: str, number: Sql) -> Hashable:
        """Return what identifies a row of a shared table for as long as it is kept."""
        return number

    def turn(self) -> None:
        """Drop from the cache the rows that were not used since the last call."""
        for known in (self._keys, *self._known.values()):
            known.turn()

    def _forget(self) -> None:
        """Keep none of the rows so far."""
        self._keys.clear()
        for known in self._known.values():
            known.clear()

    def values(self, table: str, number: Sql) -> Sequence[Any]:
        """Return the values of a row of a shared table (``records.Resolving``)."""
        known, name = self._known[table], self._name(table, number)
        found = known.get(name)
        if found is None:
            row = self._row(table, number)
            decode = _DECODE.get(table)
            found = row if decode is None else decode(self, row)
            known.put(name, found)
        return cast(Sequence[Any], found)

    def key(self, number: Sql) -> RowKey:
        """Return the ``RowKey`` of series ``number``."""
        name = self._name("series", number)
        found = self._keys.get(name)
        if found is None:
            host = self._row("series", number)[0]
            found = RowKey(self.values("hosts", host)[0], *self.values("series", number))
            self._keys.put(name, found)
        return found

    def tenant(self, number: Sql) -> Tenant:
        """Return the tenant that is described by row ``number`` of the table ``tenants``."""
        _, tenant_id, _, *others = self._row("tenants", number)
        names = _TABLES["tenants"].names[4:-1]
        values = {"id": tenant_id} | dict(zip(names, others, strict=True))
        return Tenant(**{name: _TENANT[name](value) for name, value in values.items() if value is not None})

    def _window(
        self,
        head: Mapping[str, Sql],
        parts: Mapping[str, Sequence[Sequence[Sql]]],
        rows: Rows,
        normals: Mapping[RowKey, tuple[int, int]],
    ) -> Window:
        """Return the window with these values of the table ``windows``, these rows of ``schema.RECORDS`` and
        of ``losses``, without the window's number, and these rows and baselines."""
        lists = {
            name: tuple([codec.record(row[1:], self) for row in parts[name]])
            for name, codec in _CODECS.items()
        }
        start, seconds = plain.number(head["start"], "start"), plain.number(head["seconds"], "seconds")
        bounds.check_span(start, seconds)
        told, tenants = self.values("coverage", head["coverage_id"])
        said: dict[str, Any] = dict(told)
        driver, unavailable = said.pop("driver", ""), said.pop("devices_unavailable", "")
        unknown = said.pop("unknown", ())
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
            stacks=lists["stack_counts"],
            calls=CapturedCalls(lists["calls"], read_integer(head["calls_passed_over"], "calls_passed_over")),
            normals=normals,
            allocations=lists["allocations"],
        )


def merged_alike(rows: Rows) -> Rows:
    """Return ``rows`` with rows of the same key added up. Two rows can have the same key, because unprintable
    characters are removed from names when they are read."""
    if len(set(rows.keys)) == len(rows):
        return rows
    return merge_rows([rows.take(np.arange(1)), rows.take(np.arange(1, len(rows)))])


def _host(_: RowDecoder, row: tuple[Sql, ...]) -> tuple[str]:
    return (plain.text(row[0], "hosts.name"),)


def _kernel(_: RowDecoder, row: tuple[Sql, ...]) -> tuple[str]:
    return (plain.text(row[0], "kernels.name"),)


def _tenant_id(_: RowDecoder, row: tuple[Sql, ...]) -> tuple[str]:
    return (plain.text(row[1], "tenants.id"),)


def _process(decoder: RowDecoder, row: tuple[Sql, ...]) -> tuple[str, int, str]:
    tenant, pid, process = row
    return (
        decoder.values("tenants", tenant)[0],
        read_integer(pid, "processes.pid"),
        plain.text(process, "processes.process"),
    )


def _series(decoder: RowDecoder, row: tuple[Sql, ...]) -> tuple[Any, ...]:
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


def _coverage(decoder: RowDecoder, row: tuple[Sql, ...]) -> tuple[dict[str, Any], list[Tenant]]:
    names = _TABLES["coverage"].names[1:-1]
    # A column that an older message lacks is None: its field gets the default.
    said = {name: _COVERAGE[name](value) for name, value in zip(names, row, strict=True) if value is not None}
    return said, [decoder.tenant(number) for number in said.pop("tenants", ())]


_DECODE: Final[dict[str, Callable[[RowDecoder, tuple[Sql, ...]], Sequence[Any]]]] = {
    "hosts": _host,
    "kernels": _kernel,
    "tenants": _tenant_id,
    "processes": _process,
    "series": _series,
    "coverage": _coverage,
}
"""Functions that convert the rows of shared tables, by table. Rows of other tables are used as they are
stored."""
