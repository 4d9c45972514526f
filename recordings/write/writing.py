"""Writes windows into the tables of a file. Rows that several windows share are written once."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np

from stalltop.model.chain import Chain
from stalltop.model.errors import StalltopError
from stalltop.model.histograms import payload as hdr_payload
from stalltop.model.merge.packing import Peak
from stalltop.model.window import SPLITS, U64, Rows, Window
from stalltop.recordings.file import schema
from stalltop.recordings.file.recent import Recent
from stalltop.recordings.file.seal import MOST_ROWS, sealed
from stalltop.recordings.file.values import Sql, checksum, stored_integer
from stalltop.recordings.file.window_rows import Numbers, distinct, record_rows, window_values

_TURN_WINDOWS: Final = 64
"""The cache has the numbers of the shared rows that the last 64 to 128 windows used. A row that is no longer
in the cache is written a second time."""
_KNOWN: Final = 1 << 15
"""Largest number of rows of a shared table that these windows may use."""
_KNOWN_TEXTS: Final = 256
"""Largest number of rows whose numbers are cached for each table in ``_TEXTS``. It is smaller because rows of
these tables have long texts that change often."""
_TEXTS: Final = ("coverage", "chain_texts")
_ADD_WINDOW: Final = f"INSERT INTO windows VALUES ({', '.join('?' * len(schema.WINDOWS.names))})"


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
        self._windows = 0
        """Number of windows that were written."""
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
        self._windows += 1
        if self._windows % _TURN_WINDOWS == 0:
            for shared in self._shared.values():
                shared.turn()
        numbers = Numbers(self._shared, self._clocks, window)
        found = Peak.of(window, self._chains.get(window.host)) if peak is None else peak
        values = window_values(window, numbers, found, level)
        parts = _parts(window, numbers)
        for name, rows in parts.items():
            if len(rows) > MOST_ROWS:
                raise StalltopError(
                    f"the window is too large to save ({len(rows)} rows of {name})", "narrow it with a filter"
                )
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


def _parts(window: Window, numbers: Numbers) -> dict[str, list[Sequence[Sql]]]:
    """Return the rows of ``window`` for each table of ``schema.PARTS``, without the column ``window_id``."""
    rows, series = distinct(window.rows, numbers)
    return {
        "counts": _counts(rows, series, window),
        "histograms": list(enumerate(hdr_payload.payloads(rows.histograms))),
        **record_rows(window, numbers),
    }


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
        most = _KNOWN_TEXTS if self._long else _KNOWN
        (number,) = table.key
        self._insert = f"INSERT INTO {table.name} VALUES ({_marks(len(table.names))})"
        self._numbers: Recent[Any, int] = Recent(most)
        self.next = least
        """The number that the next new row gets."""
        found = connection.execute(
            f"SELECT {', '.join(table.names)} FROM {table.name} ORDER BY {number} DESC LIMIT ?",
            (most // 2,),
        ).fetchall()
        for *row, sums in reversed(found):
            at, *values = row
            self.next = max(self.next, at + 1)
            # Damaged rows are not cached, so that they are written again.
            with contextlib.suppress(ValueError):
                if checksum([row]) == sums:
                    self._numbers.put(self._key(tuple(values)), at)

    def number(self, values: tuple[Sql, ...]) -> int:
        """Return the number of the row that has these values. If there is no such row, add it."""
        key = self._key(values)
        found = self._numbers.get(key)
        if found is None:
            found = self.next
            self.next += 1
            self._connection.execute(self._insert, (found, *values, checksum([(found, *values)])))
            self._numbers.put(key, found)
        return found

    def turn(self) -> None:
        """Drops from the cache what was not used since the last call."""
        self._numbers.turn()

    def _key(self, values: tuple[Sql, ...]) -> Any:
        return hashlib.blake2b(repr(values).encode(), digest_size=16).digest() if self._long else values
