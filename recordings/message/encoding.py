"""Encodes a window as a message that needs no other message: one for the sockets of the tracer and of the
browsers' screens."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from stalltop.model.errors import StalltopError
from stalltop.model.merge.packing import Peak
from stalltop.model.window import Window
from stalltop.recordings.file import schema
from stalltop.recordings.file.seal import MOST_ROWS
from stalltop.recordings.file.values import Sql, stored_integer
from stalltop.recordings.file.window_rows import Numbers, distinct, record_rows, window_values
from stalltop.recordings.message.arrays import packed

MOST_BYTES: Final = 64 << 20
"""Maximum size of an encoded window, in bytes."""
LENGTH: Final = struct.Struct(">I")
"""Length of the JSON text, at the start of a message."""
COLUMNS: Final = ("calls", "errors", "bytes", "total_ns", "max_ns")
"""Figures of rows, each of which is an array."""
PARTS: Final = (*schema.RECORDS, schema.LOSSES)
"""Tables of one window whose rows a message has. Counts and histograms are arrays."""


class _Listed:
    """The rows of a shared table to which one window refers. Their numbers are their places in ``rows``."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Sql, ...], int] = {}

    def number(self, values: tuple[Sql, ...]) -> int:
        """Return the number of the row that has these values. If there is no such row, add it."""
        return self.rows.setdefault(values, len(self.rows))


def encode(window: Window, peak: Peak | None = None) -> bytes:
    """Encode ``window``. ``peak`` is needed for a merged window; by default, it is computed.

    Raises StalltopError if the window is too large.
    """
    shared = {table.name: _Listed() for table in schema.SHARED}
    numbers = Numbers(shared, {}, window)
    values = window_values(window, numbers, Peak.of(window) if peak is None else peak)
    rows, series = distinct(window.rows, numbers)
    parts = record_rows(window, numbers)
    normals = [
        (place, *map(_count, window.normals[key]))
        for place, key in enumerate(rows.keys)
        if key in window.normals
    ]
    normal = np.array(normals, np.uint64).reshape(-1, 3)
    histograms = rows.histograms
    arrays = {
        "series": np.array(series, np.uint64),
        **{name: getattr(rows, name) for name in COLUMNS},
        "buckets": np.diff(histograms.start),
        "bucket": histograms.index,
        "count": histograms.count,
        "normal": normal[:, 0],
        "normal_p50_ns": normal[:, 1],
        "normal_p99_ns": normal[:, 2],
    }
    if rows.split_ns is not None:
        arrays["split_ns"] = rows.split_ns.reshape(-1)
    told, content = packed(arrays)
    tables = {"windows": _table(schema.WINDOWS.names[1:-1], [values])}
    for table in schema.SHARED:
        if shared[table.name].rows:
            tables[table.name] = _table(table.names[1:-1], list(shared[table.name].rows))
    for table in PARTS:
        if parts[table.name]:
            tables[table.name] = _table(table.names[1:], parts[table.name])
    text = json.dumps(
        {"tables": tables, "arrays": told}, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode("utf-8", "replace")
    size = LENGTH.size + len(text) + sum(map(len, content))
    most = max((len(table["rows"]) for table in tables.values()), default=0)
    if size > MOST_BYTES or max(most, len(rows)) > MOST_ROWS:
        raise StalltopError(
            f"the window is too large to send: {size >> 20} MiB of at most {MOST_BYTES >> 20} MiB, "
            f"{max(most, len(rows)):,} rows of at most {MOST_ROWS:,}"
        )
    return b"".join((LENGTH.pack(len(text)), text, *content))


def _table(columns: Sequence[str], rows: Sequence[Any]) -> Mapping[str, Any]:
    return {"columns": columns, "rows": rows}


def _count(value: int) -> int:
    stored = stored_integer(value)
    return stored if stored >= 0 else stored + (1 << 64)
