"""Groups the rows of a window by any dimensions, with percentiles from merged histograms.

The time of nested calls (a driver call inside a runtime call) is part of the call around them, and rows of
the layer
``host`` are time between calls. Therefore:

* a grouping by ``operation`` or ``layer`` counts all rows, so that ``cuLaunchKernel`` has all its calls;
* any other grouping counts outermost calls only, so that no call and no nanosecond counts twice;
* ``share`` is relative to the time of all outermost calls. Shares of outermost groups add up to 1, nested
groups come
  on top of that, and time between calls has no share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stalltop.model.devices.labels import text_of
from stalltop.model.devices.placing import Placement, placement
from stalltop.model.evidence import HOST_LAYER
from stalltop.model.histograms.hdr import indices_of
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.rows.dimensions import DIMENSIONS, Dimension
from stalltop.model.tenant import Tenant
from stalltop.model.window import U64, Window

PERCENTS = (50.0, 95.0, 99.0)
"""The percentiles of ``Groups.percentiles_ns``, in the order of its columns."""

_UNKNOWN = Tenant(id="", name="")


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups of rows in columns: element i of every array belongs to ``keys[i]``. Sorted by label."""

    by: tuple[Dimension, ...]
    keys: tuple[tuple[str, ...], ...]
    """Identity of each group, one part per dimension; the same in all windows."""
    labels: tuple[tuple[str, ...], ...]
    """Text for a person, one part per dimension; two groups may have the same labels."""
    calls: U64
    calls_per_s: NDArray[np.float64]
    errors: U64
    bytes: U64
    bytes_per_s: NDArray[np.float64]
    total_ns: U64
    max_ns: U64
    percentiles_ns: NDArray[np.int64]
    """p50, p95 and p99, shape (n, 3); 0 in groups without calls. A percentile that falls into the counter
    of the longest call is that call's exact duration, not the counter's upper edge."""
    share: NDArray[np.float64]
    """Share of the time of all outermost calls of the window, 0 to 1; NaN for time between calls."""
    nested: NDArray[np.bool_]
    """True if every call of the group was made inside another traced call."""
    between: NDArray[np.bool_]
    """True if the group consists of time between calls (rows of the layer ``host``)."""
    rows: NDArray[np.int64]
    """Number of rows of the window in each group."""
    group_of_row: NDArray[np.int64]
    """Group of each row of the window, shape (rows,); -1 if the row is in no group."""
    histograms: Histograms
    split_ns: U64 | None = None
    """Time in ns by ``SPLITS``, shape (n, len(SPLITS)); None if not measured."""

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def p50_ns(self) -> NDArray[np.int64]:
        """Median duration (ns) of each group."""
        return self.percentiles_ns[:, 0]

    @property
    def p95_ns(self) -> NDArray[np.int64]:
        """95th percentile (ns) of each group."""
        return self.percentiles_ns[:, 1]

    @property
    def p99_ns(self) -> NDArray[np.int64]:
        """99th percentile (ns) of each group."""
        return self.percentiles_ns[:, 2]

    def rows_of(self, group: int) -> NDArray[np.int64]:
        """Returns the indices of the window's rows in this group."""
        return np.flatnonzero(self.group_of_row == group)


def pivot(window: Window, by: Sequence[Dimension], *, all_rows: bool = False) -> Groups:
    """Groups the rows of ``window`` by the dimensions ``by``; without any, into one group.

    ``all_rows`` counts nested rows and time between calls in any grouping, for a window narrowed to one
    operation or layer. Raises ValueError for a dimension that is not in ``DIMENSIONS``.
    """
    unknown = set(by) - set(DIMENSIONS)
    if unknown:
        raise ValueError(f"unknown dimensions: {', '.join(sorted(unknown))}")
    rows = window.rows
    everything = all_rows or "operation" in by or "layer" in by
    grouping = _grouping(window, tuple(by), everything)
    order, group = grouping.order, grouping.group
    outermost, host = grouping.outermost, grouping.host
    n = len(order)
    kept = np.flatnonzero(group >= 0)
    target = group[kept]

    def add(column: U64) -> U64:
        sums = np.zeros((n, *column.shape[1:]), np.uint64)
        np.add.at(sums, target, column[kept])
        return sums

    longest = np.zeros(n, np.uint64)
    np.maximum.at(longest, target, rows.max_ns[kept])
    histograms = rows.histograms.grouped(group, n)
    calls, moved, total = add(rows.calls), add(rows.bytes), add(rows.total_ns)
    whole = float(rows.total_ns[outermost].sum())
    seconds = window.seconds if window.seconds > 0 else 1.0

    between = _with(host, group, n) & ~_with(~host, group, n)
    return Groups(
        by=tuple(by),
        keys=tuple(key for key, _ in order),
        labels=tuple(label for _, label in order),
        calls=calls,
        calls_per_s=calls / seconds,
        errors=add(rows.errors),
        bytes=moved,
        bytes_per_s=moved / seconds,
        total_ns=total,
        max_ns=longest,
        percentiles_ns=bounded(histograms.percentiles(PERCENTS), longest),
        share=np.where(between, np.nan, total / whole if whole else np.zeros(n)),
        nested=_with(~host & ~outermost, group, n) & ~_with(outermost, group, n),
        between=between,
        rows=np.bincount(target, minlength=n),
        group_of_row=group,
        histograms=histograms,
        split_ns=None if rows.split_ns is None else add(rows.split_ns),
    )


def _with(kind: NDArray[np.bool_], group: NDArray[np.int64], groups: int) -> NDArray[np.bool_]:
    """Returns which of the ``groups`` groups contain a row for which ``kind`` is True; ``group`` as in
    ``Groups.group_of_row``."""
    found = np.zeros(groups, np.bool_)
    found[group[kind & (group >= 0)]] = True
    return found


def bounded(percentiles_ns: NDArray[np.int64], max_ns: U64) -> NDArray[np.int64]:
    """Limits ``percentiles_ns`` (n, any) that fall into the same counter as ``max_ns`` (n,) to ``max_ns``.

    A percentile is the upper edge of a counter, which may be above the longest call; a p99 above the
    maximum would confuse the reader.
    """
    edge = np.minimum(max_ns, np.uint64(np.iinfo(np.int64).max)).astype(np.int64)[:, None]
    same = indices_of(percentiles_ns) == indices_of(edge)
    return np.where(same, np.minimum(percentiles_ns, edge), percentiles_ns)


_Name = tuple[tuple[str, ...], tuple[str, ...]]


class RowNaming:
    """Keys and labels of the rows of a window in each dimension."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._tenants = window.tenants
        self._placement: Placement | None = None

    @property
    def placement(self) -> Placement:
        """Devices of each process, computed at the first access."""
        if self._placement is None:
            self._placement = placement(self._window)
        return self._placement

    def part(self, dimension: Dimension, key: RowKey) -> tuple[str, str]:
        """Returns the part of key and label, as in ``Groups``, of a row in one dimension."""
        if dimension == "device":
            # Which call ran on which device is unknown for a process on several devices: it gets its own
            # group.
            on = text_of(self.placement.devices(key))
            if not on:
                return "", NO_DEVICE
            # A device that no longer exists has its UUID as label.
            return f"{key.host}/{on}", on if on.startswith(_OF_UUIDS) else f"GPU {on}"
        return _PART[dimension](key, self._tenants.get(key.tenant, _UNKNOWN))

    def parts(self, by: Sequence[Dimension], key: RowKey) -> _Name:
        """Returns key and label, as in ``Groups``, of the group of a row."""
        pairs = [self.part(dimension, key) for dimension in by]
        return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)


NO_DEVICE = "GPU not known"
"""Label of rows whose device is unknown."""
_OF_UUIDS = ("GPU-", "MIG-")
"""Prefixes of UUIDs of GPUs and MIG instances."""


@dataclass(frozen=True, slots=True, eq=False)
class _Grouping:
    """Assignment of rows to groups: the part of a pivot that does not depend on the counts."""

    keys: tuple[RowKey, ...]
    tenants: Mapping[str, Tenant]
    """Tenants of the window that it was made for."""
    placement: Placement | None
    """Devices of its processes, if the grouping is by device."""
    order: Sequence[_Name]
    """Key and label of each group."""
    group: NDArray[np.int64]
    """Group of each row; -1 if the row is in no group."""
    outermost: NDArray[np.bool_]
    host: NDArray[np.bool_]


_GROUPINGS: dict[tuple[tuple[Dimension, ...], bool], _Grouping] = {}
"""Cache of the latest grouping by (``by``, ``everything``): consecutive windows have mostly the same rows,
and naming them takes longer than summing them."""


def _grouping(window: Window, by: tuple[Dimension, ...], everything: bool) -> _Grouping:
    known = _GROUPINGS.get((by, everything))
    keys = window.rows.keys
    naming = RowNaming(window)
    placed = naming.placement if "device" in by else None
    if (
        known is not None
        and known.keys == keys
        and known.tenants == window.tenants
        and known.placement == placed
    ):
        return known
    outermost = np.fromiter((key.outermost for key in keys), np.bool_, len(keys))
    host = np.fromiter((key.layer == HOST_LAYER for key in keys), np.bool_, len(keys))
    named = [naming.parts(by, key) for key in keys]
    counted = named if everything else [name for name, outer in zip(named, outermost, strict=True) if outer]
    order = sorted(set(counted), key=lambda name: (name[1], name[0])) if by else [((), ())]
    place = {name: number for number, name in enumerate(order)}
    group = np.fromiter((place.get(name, -1) for name in named), np.int64, len(keys))
    if not everything:
        group[~outermost] = -1
    for array in (group, outermost, host):
        array.setflags(write=False)
    made = _Grouping(keys, window.tenants, placed, order, group, outermost, host)
    _GROUPINGS[by, everything] = made
    return made


def _process(key: RowKey) -> str:
    return f"{key.process} {key.pid}" if key.pid else key.process  # PID 0: all processes of that name


_PART: dict[Dimension, Callable[[RowKey, Tenant], tuple[str, str]]] = {
    "container": lambda key, tenant: (key.tenant, tenant.name or key.tenant),
    "namespace": lambda key, tenant: (tenant.namespace, tenant.namespace or "no namespace"),
    "pod": lambda key, tenant: (f"{tenant.namespace}/{tenant.pod}", tenant.pod or "no pod"),
    "process": lambda key, tenant: (f"{key.host}/{key.pid}/{key.process}", _process(key)),
    "operation": lambda key, tenant: (key.operation, key.operation),
    "layer": lambda key, tenant: (key.layer, key.layer),
    "host": lambda key, tenant: (key.host, key.host),
}
"""Key and label of a row in each dimension but ``device``, which needs the placement."""
