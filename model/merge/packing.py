"""Windows held for later in a fraction of the memory: integers in the smallest type that they fit into, and
evidence, chains, kernels and calls, which are many small objects, as compressed bytes."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.model.calls import Calls, pack_calls, unpack_calls
from stalltop.model.chain import SEVERITIES, Chain
from stalltop.model.cuda_kernels import KernelCount
from stalltop.model.evidence import Evidence
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.window import U64, Rows, Window

_OBJECT_BYTES = 200
"""Estimate for one small object of a window (tenant, open call, device, library, gap) with its strings."""


class Told(NamedTuple):
    """The parts of a window that are many small objects."""

    evidence: Evidence = Evidence()
    chains: tuple[Chain, ...] = ()
    kernels: tuple[KernelCount, ...] = ()


_NOTHING = Told()

_Smallest = NDArray[np.unsignedinteger]


@dataclass(frozen=True, slots=True)
class Peak:
    """How bad a stretch of time was, by its chains; what is no fault (``info``) is left out."""

    lost_ms_per_s: float = 0.0
    """Time that open chains cost together, ms a second; of windows that were merged, the most."""
    worst: int = len(SEVERITIES)
    """Index into ``SEVERITIES`` of the worst open chain; beyond its end where none was open."""
    began: int = len(SEVERITIES)
    """The same of the chains that began within."""

    @staticmethod
    def of(window: Window, before: Sequence[Chain] | None = None) -> Peak:
        """That of ``window``; ``before``: the chains of the one before it, open or over, where known.

        A chain is open from the window on that makes sure of it, some after the one that it began in: where
        ``before`` is known, it is said to have begun in the first that shows it.
        """
        faults = [chain for chain in window.chains if chain.open and chain.severity != "info"]
        if before is None:
            new = [chain for chain in faults if window.start <= chain.since < window.end]
        else:
            known = {(chain.id, chain.since) for chain in before}
            new = [chain for chain in faults if (chain.id, chain.since) not in known]
        return Peak(
            sum(chain.lost_ms_per_s for chain in faults),
            _worst(faults),
            _worst(new),
        )

    @staticmethod
    def highest(peaks: Sequence[Peak]) -> Peak:
        """That of several windows together."""
        return Peak(
            max((peak.lost_ms_per_s for peak in peaks), default=0.0),
            min((peak.worst for peak in peaks), default=len(SEVERITIES)),
            min((peak.began for peak in peaks), default=len(SEVERITIES)),
        )


def _worst(chains: Iterable[Chain]) -> int:
    return min((SEVERITIES.index(chain.severity) for chain in chains), default=len(SEVERITIES))


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A window put away by ``pack``."""

    window: Window
    """Everything but its rows, its calls and what is in `Told`."""
    keys: tuple[RowKey, ...]
    _columns: tuple[_Smallest, ...]
    """calls, errors, bytes, total_ns, max_ns, histograms' start and count."""
    _index: NDArray[np.uint16]
    _split_ns: U64 | None
    _told: bytes
    """What `told` gives; empty where there is nothing."""
    _calls: bytes
    bytes: int
    """Memory it takes: sizes of its arrays, references to its keys, an estimate for small objects. Keys
    themselves, which windows share, are not counted."""
    peak: Peak
    """How bad it was; after merging, the worst of it."""

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

    def told(self) -> Told:
        """Evidence, chains and kernels, without unpacking the rows."""
        if not self._told:
            return _NOTHING
        return Told._make(pickle.loads(zlib.decompress(self._told)))

    def calls(self) -> Calls:
        """``Window.calls``, without unpacking the rest."""
        return unpack_calls(self._calls)

    def unpack(self) -> Window:
        """The window as it was."""
        return replace(self.window, rows=self.rows(), calls=self.calls(), **self.told()._asdict())


def pack(window: Window, keys: tuple[RowKey, ...] | None = None, peak: Peak | None = None) -> Packed:
    """``window`` put away, but for what is normal, which is much and hardly changes.

    ``keys`` are equal to its keys, where the caller holds objects to share; ``peak`` is that of the windows
    it was merged from, as its own chains only tell how it ended.
    """
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
    told = Told._make(getattr(window, name) for name in Told._fields)
    packed = b""
    if told != _NOTHING:
        # Twenty times as small. Nothing is ever unpacked that was not packed right here.
        packed = zlib.compress(pickle.dumps(tuple(told), pickle.HIGHEST_PROTOCOL), 1)
    calls = pack_calls(window.calls)
    objects = (
        5
        + len(window.tenants)
        + len(window.open_calls)
        + sum(2 + len(device.processes) for device in window.devices.devices)
        + len(window.coverage.libraries)
        + len(window.coverage.missing)
        + len(window.allocations)
    )
    return Packed(
        window=replace(window, rows=Rows.empty(), calls=Calls(), normals={}, **_NOTHING._asdict()),
        keys=rows.keys if keys is None else keys,
        _columns=columns,
        _index=histograms.index,
        _split_ns=rows.split_ns,
        _told=packed,
        _calls=calls,
        bytes=arrays + len(packed) + len(calls) + 8 * len(rows) + _OBJECT_BYTES * objects,
        peak=Peak.of(window) if peak is None else peak,
    )


def _smallest(values: NDArray[np.integer]) -> _Smallest:
    most = int(np.max(values)) if len(values) else 0
    for kind in (np.uint8, np.uint16, np.uint32):
        if most <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype(np.uint64)
