"""Packs windows for the history, so that they take a fraction of their memory.

Integers are stored in the smallest type that fits. Evidence, chains, counts by CUDA kernel, stacks and
captured calls, which are many small objects, are stored as compressed bytes.
"""

from __future__ import annotations

import io
import operator
import pickle
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stalltop.model.calls import CapturedCalls, pack_calls, unpack_calls
from stalltop.model.chain import SEVERITIES, Chain, Fix, Link
from stalltop.model.cuda_kernels import KernelCount
from stalltop.model.evidence import BlockIo, Evidence, ProcessUse, Rank, TenantUse
from stalltop.model.merge.squeezed import RowArrays
from stalltop.model.network_ports import NetworkPort
from stalltop.model.row_key import RowKey
from stalltop.model.stacks.stack import StackCount
from stalltop.model.window import U64, Rows, Window

_OBJECT_BYTES = 200
"""Estimated size of one small object of a window (tenant, open call, device, library, gap) with its
strings."""


class PackedParts(NamedTuple):
    """The fields of a window that consist of many small objects."""

    evidence: Evidence = Evidence()
    chains: tuple[Chain, ...] = ()
    kernels: tuple[KernelCount, ...] = ()
    stacks: tuple[StackCount, ...] = ()


_NOTHING = PackedParts()


class Glance(NamedTuple):
    """Figures of a window's evidence that graphs of the past show, without unpacking it."""

    disk_bytes: int = 0
    """Bytes that were read from block devices and written to them."""
    late_ns: float | None = None
    """Mean time in ns by which the latest rank was late for collectives; None without ranks that were
    compared."""
    network_ports: tuple[NetworkPort, ...] = ()

    @classmethod
    def of(cls, evidence: Evidence) -> Self:
        """Returns the figures of ``evidence``."""
        late = [rank.late_ns / rank.joined for rank in evidence.ranks if rank.joined]
        moved = sum(io.bytes for io in evidence.block_io)
        return cls(moved, max(late, default=None), evidence.network_ports)


def _as_call(kind: type) -> Callable[[Any], tuple[type, tuple[Any, ...]]]:
    """Returns a function that tells pickle to store a dataclass of this ``kind`` as a call of its class. The
    way in which ``dataclasses`` has slots pickled is several times as slow."""
    values = operator.attrgetter(*(field.name for field in fields(kind)))
    return lambda record: (kind, values(record))


class _Packer(pickle.Pickler):
    """Pickles ``PackedParts``."""

    dispatch_table = {  # as in the base class
        kind: _as_call(kind) for kind in (Chain, Link, Fix, BlockIo, TenantUse, ProcessUse, Rank)
    }


_Smallest = NDArray[np.unsignedinteger]


@dataclass(frozen=True, slots=True)
class Peak:
    """Loss and worst severity in a stretch of time. Chains of severity ``info`` do not count."""

    lost_ms_per_s: float = 0.0
    """Total loss of the open chains, ms per second; in a merged window, the maximum of the windows that it
    was merged from."""
    worst: int = len(SEVERITIES)
    """Index in ``SEVERITIES`` of the worst open chain; len(SEVERITIES) if no chain was open."""
    began: int = len(SEVERITIES)
    """Index in ``SEVERITIES`` of the worst chain that began within the stretch of time; len(SEVERITIES) if no
    chain began."""

    @staticmethod
    def of(window: Window, before: Sequence[Chain] | None = None) -> Peak:
        """Computes the peak of ``window``. ``before`` has all chains of the previous window; None if unknown.

        Diagnosis opens a chain only when the problem is certain, some windows after the problem began. If
        ``before`` is known, a chain therefore counts as begun in the first window that contains the chain;
        otherwise in the window in which its time ``since`` lies.
        """
        faults = [chain for chain in window.chains if chain.open and chain.severity != "info"]
        if before is None:
            new = [chain for chain in faults if window.start <= chain.since < window.end]
        else:
            known = {(chain.id, chain.since) for chain in before}
            new = [chain for chain in faults if (chain.id, chain.since) not in known]
        return Peak(
            sum(chain.lost_ms_per_s for chain in faults if chain.is_seen(window.end)),
            _worst(faults),
            _worst(new),
        )

    @staticmethod
    def highest(peaks: Sequence[Peak]) -> Peak:
        """Combines the peaks of several windows: the greatest loss and the worst severities."""
        return Peak(
            max((peak.lost_ms_per_s for peak in peaks), default=0.0),
            min((peak.worst for peak in peaks), default=len(SEVERITIES)),
            min((peak.began for peak in peaks), default=len(SEVERITIES)),
        )


def _worst(chains: Iterable[Chain]) -> int:
    return min((SEVERITIES.index(chain.severity) for chain in chains), default=len(SEVERITIES))


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A window packed by ``pack``."""

    window: Window
    """The window without its rows, its captured calls and the fields of ``PackedParts``."""
    keys: tuple[RowKey, ...]
    _columns: tuple[_Smallest, ...]
    """Arrays: the columns calls, errors, bytes, total_ns and max_ns of the rows."""
    _arrays: RowArrays
    _told: bytes
    """Compressed ``PackedParts``; b"" if they are empty."""
    _calls: bytes
    _other_bytes: int
    """Memory of everything except ``_arrays``, in bytes."""
    peak: Peak
    """Peak of the window; in a merged window, the combined peak of the windows that it was merged from."""
    glance: Glance = field(default_factory=Glance)

    @property
    def bytes(self) -> int:
        """Memory of the packed window in bytes: its arrays, references to its keys, and an estimate for small
        objects. The keys themselves, which windows share, are not counted."""
        return self._other_bytes + self._arrays.nbytes

    def squeeze(self) -> int:
        """Makes the window take less memory; unpacking it then takes longer. Returns how many bytes that
        saves."""
        return self._arrays.squeeze()

    @property
    def call_counts(self) -> U64:
        """``Rows.calls`` of the window, without unpacking anything else."""
        return self._columns[0].astype(np.uint64)

    @property
    def max_ns(self) -> U64:
        """``Rows.max_ns`` of the window, without unpacking anything else."""
        return self._columns[4].astype(np.uint64)

    def rows(self) -> Rows:
        """Unpacks ``Window.rows``."""
        calls, errors, moved, total, longest = (column.astype(np.uint64) for column in self._columns)
        return Rows(self.keys, calls, errors, moved, total, longest, *self._arrays.read())

    def told(self) -> PackedParts:
        """Unpacks evidence, chains, counts by CUDA kernel and stacks, without the rows."""
        if not self._told:
            return _NOTHING
        return PackedParts._make(pickle.loads(zlib.decompress(self._told)))

    def calls(self) -> CapturedCalls:
        """Unpacks ``Window.calls`` only."""
        return unpack_calls(self._calls)

    def unpack(self) -> Window:
        """Unpacks the whole window. ``Window.normals`` is empty, because ``pack`` does not store it."""
        return replace(self.window, rows=self.rows(), calls=self.calls(), **self.told()._asdict())


def pack(window: Window, keys: tuple[RowKey, ...] | None = None, peak: Peak | None = None) -> Packed:
    """Packs ``window`` without ``Window.normals``, which is large and hardly changes.

    ``keys`` is equal to the keys of the window's rows, but may consist of objects that several windows share.
    ``peak`` is needed for a merged window: the combined peak of the windows that it was merged from, because
    a merged window has only the chains of the last of these windows. By default, the peak is computed.
    """
    rows = window.rows
    histograms = rows.histograms
    columns = tuple(
        smallest(column) for column in (rows.calls, rows.errors, rows.bytes, rows.total_ns, rows.max_ns)
    )
    told = PackedParts._make(getattr(window, name) for name in PackedParts._fields)
    packed = b""
    if told != _NOTHING:
        # Compression makes the bytes twenty times smaller. Unpickling is safe, because the bytes never leave
        # this process.
        pickled = io.BytesIO()
        _Packer(pickled, pickle.HIGHEST_PROTOCOL).dump(tuple(told))
        packed = zlib.compress(pickled.getbuffer(), 1)
    calls = pack_calls(window.calls)
    objects = (
        5
        + len(window.tenants)
        + len(window.open_calls)
        + sum(2 + len(device.processes) for device in window.devices.devices)
        + len(window.devices.gone)
        + len(window.coverage.libraries)
        + len(window.coverage.missing)
        + len(window.allocations)
        + len(window.evidence.network_ports)
    )
    return Packed(
        window=replace(window, rows=Rows.empty(), calls=CapturedCalls(), normals={}, **_NOTHING._asdict()),
        keys=rows.keys if keys is None else keys,
        _columns=columns,
        _arrays=RowArrays(
            smallest(histograms.start), smallest(histograms.count), histograms.index, rows.split_ns
        ),
        _told=packed,
        _calls=calls,
        _other_bytes=sum(column.nbytes for column in columns)
        + len(packed)
        + len(calls)
        + 8 * len(rows)
        + _OBJECT_BYTES * objects,
        peak=Peak.of(window) if peak is None else peak,
        glance=Glance.of(window.evidence),
    )


def smallest(values: NDArray[np.integer]) -> _Smallest:
    """Returns ``values``, none of them negative, in the smallest unsigned type that holds them."""
    most = int(np.max(values)) if len(values) else 0
    for kind in (np.uint8, np.uint16, np.uint32):
        if most <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype(np.uint64)
