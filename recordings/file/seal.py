"""Computes the checksum of a window, which the writer stores and the reader compares."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Final

from stalltop.recordings.file import schema
from stalltop.recordings.file.values import Sql, checksum

MOST_ROWS: Final = 200_000
"""Largest number of rows that one window may have in one table."""


def sealed(values: Sequence[Sql], parts: Mapping[str, Sequence[Sequence[Sql]]]) -> int:
    """Return the checksum of a window. It covers the row of the window without number and checksum, and all
    its ``parts`` without the window's number, in the order of ``schema.PARTS``. In place of a histogram, it
    covers the CRC-32 of the histogram's bytes."""
    sums = checksum([values])
    for table in schema.PARTS:
        rows = parts[table.name]
        if table is schema.HISTOGRAMS:
            rows = [(place, _bytes_sum(payload)) for place, payload in rows]
        sums = checksum(rows, sums)
    return sums


def _bytes_sum(payload: Sql) -> int:
    if not isinstance(payload, bytes):
        raise ValueError("the payload of a histogram is not bytes")
    return zlib.crc32(payload)
