"""Rows of a window grouped by any dimensions, with percentiles from merged histograms.

Nested calls (a driver call inside a runtime call) are part of the call around them, and rows of the layer
``host`` are time between calls. So:

* a grouping with ``operation`` or ``layer`` in it counts all rows: somebody who looks at
  ``cuLaunchKernel`` wants all of them;
* any other grouping counts the outermost calls only, so that no call and no nanosecond counts twice;
* ``share`` is always of the outermost calls' time. Shares of outermost groups add up to 1; nested ones
  come on top of that; time between calls has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from stalltop.model.devices.labels import text_of
from stalltop.model.devices.placing import Placement, placement
from stalltop.model.evidence import HOST_LAYER
from stalltop.model.histograms.hdr import indices_of
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import U64, Window

Dimension = Literal["container", "namespace", "pod", "process", "operation", "layer", "device", "host"]

DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
"""Everything that rows can be grouped by."""

PERCENTS = (50.0, 95.0, 99.0)
"""The percentiles of ``Groups.percentiles_ns``, in the order of its columns."""

_UNKNOWN = Tenant(id="", name="")


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups of rows by column: element i of every array belongs to ``keys[i]``. Sorted by label."""

    by: tuple[Dimension, ...]
    keys: tuple[tuple[str, ...], ...]
    """What identifies each group, one part a dimension: stays the same from window to window."""
    labels: tuple[tuple[str, ...], ...]
    """What a person reads, one part a dimension; two groups may read alike."""
    calls: U64
    calls_per_s: NDArray[np.float64]
    errors: U64
    bytes: U64
    bytes_per_s: NDArray[np.float64]
    total_ns: U64
    max_ns: U64
    percentiles_ns: NDArray[np.int64]
    """p50, p95 and p99, shape (n, 3); 0 where nothing was counted. A percentile that falls into the
    counter of the longest call is that call's exact duration, not the counter's upper edge."""
    share: NDArray[np.float64]
    """Part of the time of all outermost calls of the window, 0 to 1; NaN for time between calls."""
    nested: NDArray[np.bool_]
    """True where every call of the group was made inside another traced call."""
    between: NDArray[np.bool_]
    """True where the group is no calls but the time between them (rows of the layer ``host``)."""
    rows: NDArray[np.int64]
    """How many rows of the window each group holds."""
    group_of_row: NDArray[np.int64]
    """The group of each row of the window, -1 where a row is left out; shape (rows,)."""
    histograms: Histograms
    split_ns: U64 | None = None
    """Shape (n, len(SPLITS)) where the splits were measured, else None."""

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
        """Indices of the window's rows in this group."""
        return np.flatnonzero(self.group_of_row == group)


def pivot(window: Window, by: Sequence[Dimension], *, all_rows: bool = False) -> Groups:
    """The rows of ``window`` grouped by the dimensions ``by``, in that order; none: one group of everything.

    ``all_rows`` counts them all in any grouping: for a window narrowed to one operation or layer. Raises
    ValueError for a dimension that is not in ``DIMENSIONS``.
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
    """Which of so many groups have a row of that kind; ``group`` is that of each row, -1 for none."""
    found = np.zeros(groups, np.bool_)
    found[group[kind & (group >= 0)]] = True
    return found


def bounded(percentiles_ns: NDArray[np.int64], max_ns: U64) -> NDArray[np.int64]:
    """``percentiles_ns`` (n, any), exact where they fall into the same counter as ``max_ns`` (n,).

    A counter stands for its upper edge, which may lie above the longest call: nobody understands a p99
    above the maximum.
    """
    edge = np.minimum(max_ns, np.uint64(np.iinfo(np.int64).max)).astype(np.int64)[:, None]
    same = indices_of(percentiles_ns) == indices_of(edge)
    return np.where(same, np.minimum(percentiles_ns, edge), percentiles_ns)


_Name = tuple[tuple[str, ...], tuple[str, ...]]


class Naming:
    """What the rows of a window belong to, by dimension."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._tenants = window.tenants
        self._placement: Placement | None = None

    @property
    def placement(self) -> Placement:
        """Which processes are on which devices; worked out where somebody asks."""
        if self._placement is None:
            self._placement = placement(self._window)
        return self._placement

    def part(self, dimension: Dimension, key: RowKey) -> tuple[str, str]:
        """Key and label of what a row belongs to in ``dimension``: the same as in ``Groups``."""
        if dimension == "device":
            # A process on several devices is in a group of its own: which call ran where is not known.
            on = text_of(self.placement.devices(key))
            if not on:
                return "", NO_DEVICE
            # One that is not there any more is called by its UUID.
            return f"{key.host}/{on}", on if on.startswith(_OF_UUIDS) else f"GPU {on}"
        return _PART[dimension](key, self._tenants.get(key.tenant, _UNKNOWN))

    def parts(self, by: Sequence[Dimension], key: RowKey) -> _Name:
        """Key and label of the group that a row is in, grouped by all of these dimensions."""
        pairs = [self.part(dimension, key) for dimension in by]
        return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)


NO_DEVICE = "GPU not known"
_OF_UUIDS = ("GPU-", "MIG-")
"""What rows are called of whose processes no device tells."""


@dataclass(frozen=True, slots=True, eq=False)
class _Grouping:
    """Which group each row belongs to: all of a pivot that does not depend on what was counted."""

    keys: tuple[RowKey, ...]
    tenants: Mapping[str, Tenant]
    """Of the window that it was made for."""
    placement: Placement | None
    """The same, where it matters."""
    order: Sequence[_Name]
    """Key and label of each group."""
    group: NDArray[np.int64]
    """Of each row, -1 where it is left out."""
    outermost: NDArray[np.bool_]
    host: NDArray[np.bool_]


_GROUPINGS: dict[tuple[tuple[Dimension, ...], bool], _Grouping] = {}
"""The last one of each kind, of which there are few: windows that follow each other have the same rows, and
naming them takes longer than adding them up."""


def _grouping(window: Window, by: tuple[Dimension, ...], everything: bool) -> _Grouping:
    known = _GROUPINGS.get((by, everything))
    keys = window.rows.keys
    naming = Naming(window)
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
    return f"{key.process} {key.pid}" if key.pid else key.process  # without: all of that name


_PART: dict[Dimension, Callable[[RowKey, Tenant], tuple[str, str]]] = {
    "container": lambda key, tenant: (key.tenant, tenant.name or key.tenant),
    "namespace": lambda key, tenant: (tenant.namespace, tenant.namespace or "no namespace"),
    "pod": lambda key, tenant: (f"{tenant.namespace}/{tenant.pod}", tenant.pod or "no pod"),
    "process": lambda key, tenant: (f"{key.host}/{key.pid}/{key.process}", _process(key)),
    "operation": lambda key, tenant: (key.operation, key.operation),
    "layer": lambda key, tenant: (key.layer, key.layer),
    "host": lambda key, tenant: (key.host, key.host),
}
"""Key and label of what a row of a tenant belongs to; devices are not told by these."""
