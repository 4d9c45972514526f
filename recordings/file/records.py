"""Converts records of a window to rows of their tables and back. The descriptions of the columns in
``schema`` say how."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any, Final, Protocol, get_type_hints

from stalltop.model.chain import Link
from stalltop.recordings.file.schema import SHARED, SqlColumn, SqlTable
from stalltop.recordings.file.values import Sql, reading, storing

NAMED: Final = ("tenants", "processes", "series", "kernels")
"""Shared tables in which a few fields of a record, such as tenant, PID and process, identify the row that the
record refers to. In any other shared table, the values of all columns identify it."""
_SHARED: Final = {table.name: table for table in SHARED}


class Referring(Protocol):
    """Returns the numbers of rows in shared tables."""

    def number(self, table: str, values: tuple[Any, ...]) -> int:
        """Return the number of the row of ``table`` that has these values. For a table in ``NAMED``, the
        values are fields of the record. For any other table, they are the values of all columns."""


class Resolving(Protocol):
    """Returns the rows of shared tables by number."""

    def values(self, table: str, number: Sql) -> Sequence[Any]:
        """Return the values of row ``number`` of ``table``: the values that ``Referring.number`` was given
        for this row. Raises ValueError if there is no such row."""


def _link_texts(chain: Any) -> list[dict[str, Any]]:
    """Return the links of a chain without their figures. The figures are left out because they change from
    window to window."""
    return [
        {
            field.name: getattr(link, field.name)
            for field in fields(link)
            if field.name not in ("share", "ns_per_s")
        }
        for link in chain.links
    ]


def _link_figures(chain: Any) -> list[list[float | None]]:
    return [[link.share, link.ns_per_s] for link in chain.links]


_OTHERWISE: Final[Mapping[tuple[str, str], tuple[Callable[[Any], Any], Any]]] = {
    ("chain_texts", "links"): (_link_texts, tuple[Link, ...]),
    ("chains", "figures"): (_link_figures, tuple[tuple[float | None, float | None], ...]),
}
"""Columns whose value is not that of a field of the record, by table and column. Each has a function that
computes the value of the column from the record, and the type by which this value is stored and read."""


class Codec:
    """Converts records of one table to rows and back."""

    def __init__(self, table: SqlTable) -> None:
        assert table.kind is not None
        self.table = table
        self._kind = table.kind
        hints = get_type_hints(table.kind, include_extras=True)
        self._known = frozenset(hints)
        # Some columns are not a part of the record: the number of the row (or its window and place) and the
        # checksum.
        self.columns = tuple(
            column
            for column in table.columns
            if column.name not in ("window_id", "place", "checksum", *table.key)
        )
        self._write = [self._writing(column, hints) for column in self.columns]
        self._read = [self._reading(column, hints) for column in self.columns]

    def row(self, record: Any, numbers: Referring) -> list[Sql]:
        """Return the row for ``record``: the values of ``self.columns``."""
        return [write(record, numbers) for write in self._write]

    def fields(self, row: Sequence[Sql], rows: Resolving) -> dict[str, Any]:
        """Return the fields of the record that is stored in ``row``. ``row`` has the values of
        ``self.columns``. Raises ValueError if a value is wrong."""
        found: dict[str, Any] = {}
        for read, value in zip(self._read, row, strict=True):
            read(found, value, rows)
        return found

    def record(self, row: Sequence[Sql], rows: Resolving) -> Any:
        """Return the record that is stored in ``row``. ``row`` has the values of ``self.columns``. Raises
        ValueError if a value is wrong."""
        found = self.fields(row, rows)
        if "figures" in found:
            figures = found.pop("figures")
            if len(figures) != len(found["links"]):
                raise ValueError("chains.figures and chain_texts.links have different numbers of links")
            found["links"] = tuple(
                replace(link, share=share, ns_per_s=ns_per_s)
                for link, (share, ns_per_s) in zip(found["links"], figures, strict=True)
            )
        return self._kind(**{name: value for name, value in found.items() if name in self._known})

    def _writing(self, column: SqlColumn, hints: Mapping[str, Any]) -> Callable[[Any, Referring], Sql]:
        if column.refers in NAMED:
            names = column.names
            get = operator.attrgetter(*names) if len(names) > 1 else _one(operator.attrgetter(names[0]))
            return lambda record, numbers: numbers.number(column.refers, get(record))
        if column.refers:
            codec = Codec(_SHARED[column.refers])
            return lambda record, numbers: numbers.number(column.refers, tuple(codec.row(record, numbers)))
        (name,) = column.names
        get_value, hint = _OTHERWISE.get(
            (self.table.name, name), (operator.attrgetter(name), hints.get(name, str))
        )
        store = storing(hint)
        return lambda record, _: store(get_value(record))

    def _reading(
        self, column: SqlColumn, hints: Mapping[str, Any]
    ) -> Callable[[dict[str, Any], Sql, Resolving], None]:
        if column.refers in NAMED:
            return lambda found, value, rows: found.update(
                zip(column.names, rows.values(column.refers, value), strict=True)
            )
        if column.refers:
            codec = Codec(_SHARED[column.refers])
            return lambda found, value, rows: found.update(
                codec.fields(rows.values(column.refers, value), rows)
            )
        (name,) = column.names
        _, hint = _OTHERWISE.get((self.table.name, name), (None, hints.get(name, str)))
        read = reading(hint, f"{self.table.name}.{column.name}")
        default = _default(self._kind, name)

        def set_field(found: dict[str, Any], value: Sql, _: Resolving) -> None:
            found[name] = default if value is None and default is not None else read(value)

        return set_field


def _one(get: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda record: (get(record),)


def _default(kind: type, name: str) -> Any:
    """Return the default of a field; None if it has none."""
    if is_dataclass(kind):
        for field in fields(kind):
            if field.name == name and field.default is not MISSING:
                return field.default
    return getattr(kind, "_field_defaults", {}).get(name)


def codecs(tables: Iterable[SqlTable]) -> dict[str, Codec]:
    """Return a codec for each of ``tables``, by name."""
    return {table.name: Codec(table) for table in tables}
