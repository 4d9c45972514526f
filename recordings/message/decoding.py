"""Decodes messages that ``encoding`` made. Checks every value: a message may come from a stranger, or from an
older or newer stalltop."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from stalltop.files import plain
from stalltop.model.histograms.hdr import COUNTERS
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.merge.packing import Peak
from stalltop.model.row_key import RowKey
from stalltop.model.window import SPLITS, U64, Rows, Window
from stalltop.recordings.file import schema
from stalltop.recordings.file.seal import MOST_ROWS
from stalltop.recordings.file.values import Sql, read_flag
from stalltop.recordings.message.arrays import unpacked
from stalltop.recordings.message.encoding import COLUMNS, LENGTH, MOST_BYTES, PARTS
from stalltop.recordings.read.row_decoding import RowDecoder, merged_alike

_TURN_MESSAGES: Final = 64
"""Rows that were in none of the last 64 to 128 messages are no longer kept."""
_NAMES: Final[Mapping[str, Sequence[str]]] = {
    "windows": schema.WINDOWS.names[1:-1],
    **{table.name: table.names[1:-1] for table in schema.SHARED},
    **{table.name: table.names[1:] for table in PARTS},
}
"""Columns of each table of a message."""


class DecodedWindow(NamedTuple):
    """A window, and the peak of the windows that it was merged from."""

    window: Window
    peak: Peak


class MessageDecoder(RowDecoder):
    """Decodes messages of one sender. Rows that messages share are decoded once."""

    def __init__(self) -> None:
        super().__init__()
        self._messages = 0
        self._tables: dict[str, list[tuple[Sql, ...]]] = {}
        self._owners: tuple[object, ...] = ()
        """Hosts and tenants of the message before. Decoded rows refer to them by number."""

    def decode(self, content: bytes) -> DecodedWindow:
        """Decode a message. Raises ValueError if ``content`` is not a message."""
        try:
            return self._message(content)
        except (LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error

    def _message(self, content: bytes) -> DecodedWindow:
        self._messages += 1
        if self._messages % _TURN_MESSAGES == 0:
            self.turn()
        if not LENGTH.size <= len(content) <= MOST_BYTES:
            raise ValueError("the message is too short or too long")
        (length,) = LENGTH.unpack_from(content)
        end = LENGTH.size + length
        if end > len(content):
            raise ValueError("the message is truncated")
        told = json.loads(content[LENGTH.size : end])
        self._take(told["tables"])
        arrays = unpacked(told["arrays"], memoryview(content)[end:])
        (values,) = self._tables["windows"]
        head = dict(zip(_NAMES["windows"], values, strict=True))
        rows, normals = self._rows(arrays, split=read_flag(head["split"], "split"))
        window = self._window(head, {table.name: self._tables[table.name] for table in PARTS}, rows, normals)
        lost = head["lost_ms_per_s"]
        peak = Peak(
            plain.number(lost or 0.0, "lost"),
            plain.integer(head["worst"], "worst"),
            plain.integer(head["began"], "began"),
        )
        return DecodedWindow(window, peak)

    def _take(self, tables: Mapping[str, Any]) -> None:
        """Take the tables of a message. Columns that this version does not know are left out; columns that
        the sender does not have are None, and their fields get the default."""
        self._tables = {name: _rows(tables.get(name), names, name) for name, names in _NAMES.items()}
        owners = (self._tables["hosts"], self._tables["tenants"])
        if owners != self._owners:
            self._owners = owners
            self._forget()

    def _name(self, table: str, number: Sql) -> Hashable:
        return self._row(table, number)  # numbers differ from message to message

    def _row(self, table: str, number: Sql) -> tuple[Sql, ...]:
        rows = self._tables[table]
        if type(number) is not int or not 0 <= number < len(rows):
            raise ValueError(f"row {number!r} of {table} is missing")
        return rows[number]

    def _rows(self, arrays: Mapping[str, U64], *, split: bool) -> tuple[Rows, dict[RowKey, tuple[int, int]]]:
        keys = tuple([self.key(number) for number in arrays["series"].tolist()])
        n = len(keys)
        figures = [arrays[name] for name in COLUMNS]
        buckets, index, count = arrays["buckets"], arrays["bucket"], arrays["count"]
        if any(len(column) != n for column in (*figures, buckets)):
            raise ValueError("columns of rows have different lengths")
        start = np.concatenate((np.zeros(1, np.int64), np.cumsum(buckets.astype(np.int64))))
        if len(index) != len(count) or np.any(buckets > COUNTERS) or start[-1] != len(index):
            raise ValueError("histograms have a wrong number of buckets")
        first = np.zeros(len(index), bool)
        first[start[:-1][buckets > 0]] = True
        ascending = np.diff(index.astype(np.int64)) > 0
        if np.any(index >= COUNTERS) or not np.all(ascending | first[1:]) or not np.all(count):
            raise ValueError("the buckets of a histogram do not ascend, or are empty")
        parts = arrays["split_ns"].reshape(n, len(SPLITS)) if split else None
        histograms = Histograms(start, index.astype(np.uint16), count)
        places = arrays["normal"].tolist()
        baselines = zip(arrays["normal_p50_ns"].tolist(), arrays["normal_p99_ns"].tolist(), strict=True)
        normals = {keys[place]: told for place, told in zip(places, baselines, strict=True)}
        calls, errors, moved, total, longest = figures
        rows = Rows(keys, calls, errors, moved, total, longest, histograms, parts)
        return merged_alike(rows), normals


def _rows(table: object, names: Sequence[str], name: str) -> list[tuple[Sql, ...]]:
    """Return the rows of a table with the columns ``names``; empty if the message does not have it."""
    if table is None:
        return []
    if not isinstance(table, dict) or not isinstance(table["rows"], list) or len(table["rows"]) > MOST_ROWS:
        raise ValueError(f"{name} is not a table, or has too many rows")
    columns, rows = table["columns"], list(map(tuple, table["rows"]))
    if not isinstance(columns, list) or any(len(row) != len(columns) for row in rows):
        raise ValueError(f"{name} has rows of different lengths")
    if columns == list(names):
        return rows
    places = [columns.index(one) if one in columns else -1 for one in names]
    return [tuple([row[place] if place >= 0 else None for place in places]) for row in rows]
