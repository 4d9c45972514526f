"""Reads windows of a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final, cast

import numpy as np

from stalltop.files import plain
from stalltop.model.histograms import payload as hdr_payload
from stalltop.model.merge.packing import Peak
from stalltop.model.row_key import RowKey
from stalltop.model.window import SPLITS, Rows, Window
from stalltop.recordings.file import schema
from stalltop.recordings.file.seal import MOST_ROWS, sealed
from stalltop.recordings.file.values import Sql, checksum, read_flag, read_integer
from stalltop.recordings.read.row_decoding import RowDecoder, merged_alike

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


class Decoder(RowDecoder):
    """Reads windows of one file by their numbers."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection = connection

    def window(self, number: int) -> Window:
        """Return the window ``number``. Raises KeyError if there is none, ValueError if a value in it is
        wrong, and sqlite3.Error if the file cannot be read."""
        values, parts = self._checked(number)
        head = dict(zip(schema.WINDOWS.names[1:-1], values, strict=True))
        rows = self._counts(parts, read_flag(head["split"], "split"))
        return self._window(head, parts, rows, self._normals(parts["counts"]))

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

    def _row(self, table: str, number: Sql) -> tuple[Sql, ...]:
        if type(number) is not int:
            raise ValueError(f"a reference to a row of {table} is not an integer")
        found = self._connection.execute(_SHARED[table], (number,)).fetchone()
        if found is None:
            raise ValueError(f"row {number} of {table} is missing")
        self._check_row(table, found)
        return tuple(found[1:-1])

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
        return merged_alike(
            Rows(
                *(keys, calls, errors, moved, total, longest),
                histograms=hdr_payload.histograms([cast(bytes, payload) for _, payload in payloads]),
                split_ns=np.ascontiguousarray(table[:, 5:]) if split else None,
            )
        )
