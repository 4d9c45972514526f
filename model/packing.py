"""Windows held for later in a third of the memory: integers in the smallest type that they fit into."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from model.histograms import Histograms
from model.window import U64, RowKey, Rows, Window

_OBJECT_BYTES = 200
"""Estimate for one small object of a window (tenant, open call, device, library, gap) with its strings."""

_Smallest = NDArray[np.unsignedinteger]


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A window put away by ``pack``."""

    window: Window
    """Everything but the rows."""
    keys: tuple[RowKey, ...]
    _columns: tuple[_Smallest, ...]
    """calls, errors, bytes, total_ns, max_ns, histograms' start and count."""
    _index: NDArray[np.uint16]
    _split_ns: U64 | None
    bytes: int
    """Memory it takes: sizes of its arrays, references to its keys, an estimate for small objects. Keys
    themselves, which windows share, are not counted."""

    @property
    def max_ns(self) -> U64:
        """``Rows.max_ns``, without unpacking the rest."""
        return self._columns[4].astype(np.uint64)

    def rows(self) -> Rows:
        """The rows as they were."""
        calls, errors, moved, total, longest, start, count = (
            column.astype(np.uint64) for column in self._columns
        )
        histograms = Histograms(start.astype(np.int64), self._index, count)
        return Rows(self.keys, calls, errors, moved, total, longest, histograms, self._split_ns)

    def unpack(self) -> Window:
        """The window as it was."""
        return replace(self.window, rows=self.rows())


def pack(window: Window, keys: tuple[RowKey, ...] | None = None) -> Packed:
    """``window`` put away; ``keys`` are equal to its keys, where the caller holds objects to share."""
    rows = window.rows
    histograms = rows.histograms
    columns = tuple(
        _smallest(column)
        for column in (
            *(rows.calls, rows.errors, rows.bytes, rows.total_ns, rows.max_ns),
            *(histograms.start, histograms.count),
        )
    )
    arrays = sum(column.nbytes for column in columns) + histograms.index.nbytes
    if rows.split_ns is not None:
        arrays += rows.split_ns.nbytes
    objects = (
        5
        + len(window.tenants)
        + len(window.open_calls)
        + len(window.devices.devices)
        + len(window.coverage.libraries)
        + len(window.coverage.missing)
    )
    return Packed(
        window=replace(window, rows=Rows.empty()),
        keys=rows.keys if keys is None else keys,
        _columns=columns,
        _index=histograms.index,
        _split_ns=rows.split_ns,
        bytes=arrays + 8 * len(rows) + _OBJECT_BYTES * objects,
    )


def _smallest(values: NDArray[np.integer]) -> _Smallest:
    most = int(np.max(values)) if len(values) else 0
    for kind in (np.uint8, np.uint16, np.uint32):
        if most <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype(np.uint64)
