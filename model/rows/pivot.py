"""Groups the rows of a window by any dimensions, with percentiles from merged histograms.

The time of a nested call (such as a driver call inside a runtime call) is part of the time of the call around
it, and rows of the layer ``host`` are time between calls. Therefore:

* a grouping by ``operation`` or ``layer`` counts all rows, so that the group ``cuLaunchKernel``, for example,
  has all calls of that function;
* any other grouping counts outermost calls only, so that no call and no time counts twice;
* ``share`` is the time of a group divided by the time of all outermost calls. Shares of groups of outermost
  calls add up to 1, shares of groups of nested calls are not part of this sum, and groups of time between
  calls have no share.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from stalltop.model.devices.labels import text_of
from stalltop.model.evidence import shown_operation
from stalltop.model.histograms.hdr import indices_of
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.rows.dimensions import DIMENSIONS, Dimension
from stalltop.model.rows.named_rows import GroupName, NamedRows
from stalltop.model.sharing.placing import Placement, placement
from stalltop.model.tenant import Tenant
from stalltop.model.text.words import with_pid
from stalltop.model.window import U64, Window

PERCENTS = (50.0, 95.0, 99.0)
"""Percentiles that are computed for each group, in the order of the columns of ``Groups.percentiles_ns``."""

OWN_SHARE = 0.02
"""The largest share of a process's calls of one function that may be outermost if these calls are counted as
repeated. Calls that had begun when tracing began are counted as outermost, because the calls around them are
not known."""
_ONE_CALL_FROM = 5
"""If a process made this many calls of one function, a single outermost one may be a larger share."""

_UNKNOWN = Tenant(id="", name="")


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of rows in columns: element i of every array belongs to ``keys[i]``. Sorted by label.

    Histograms and percentiles are computed when they are first read.
    """

    by: tuple[Dimension, ...]
    keys: tuple[tuple[str, ...], ...]
    """Identity of each group, one part per dimension. A group has equal keys in all windows."""
    labels: tuple[tuple[str, ...], ...]
    """Name of each group for a person, one part per dimension. Two groups may have equal labels."""
    calls: U64
    calls_per_s: NDArray[np.float64]
    errors: U64
    bytes: U64
    bytes_per_s: NDArray[np.float64]
    total_ns: U64
    max_ns: U64
    share: NDArray[np.float64]
    """Time of each group divided by the time of all outermost calls of the window; NaN for time between
    calls."""
    nested: NDArray[np.bool_]
    """For each group: True if every call of the group was made inside another traced call."""
    repeated: NDArray[np.bool_]
    """For each group: True if the group repeats figures of other groups: in every process, its calls were
    made inside other traced calls, except for a share of at most ``OWN_SHARE``."""
    between: NDArray[np.bool_]
    """For each group: True if the group consists of time between calls (rows of the layer ``host``)."""
    rows: NDArray[np.int64]
    """Number of rows of the window in each group."""
    group_of_row: NDArray[np.int64]
    """Index of the group of each row of the window, shape (rows,); -1 if the row is in no group."""
    histograms_of_rows: Histograms
    """The histograms of the rows of the window."""
    split_ns: U64 | None = None
    """Time of each group in ns by part, shape (n, len(SPLITS)), in the order of ``model.window.SPLITS``; None
    if splits were not measured."""

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def histograms(self) -> Histograms:
        """Histogram of each group."""
        return self.histograms_of_rows.grouped(self.group_of_row, len(self))

    @cached_property
    def percentiles_ns(self) -> NDArray[np.int64]:
        """p50, p95 and p99, shape (n, 3); 0 in groups without calls. A percentile is the upper edge of a
        counter of the histogram; in the counter of the longest call, it is the exact duration of that call
        instead."""
        return self._percentiles(PERCENTS)

    def percentiles_of(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the rows ``groups`` of ``percentiles_ns``, without computing those of other groups."""
        if "percentiles_ns" in self.__dict__ or len(groups) == len(self):
            return self.percentiles_ns[groups]
        rows = self._row_of_group
        if rows is not None:
            histograms = self.histograms_of_rows.take(rows[groups])
        else:
            place = np.full(len(self) + 1, -1, np.int64)  # the last element is for rows without a group
            place[groups] = np.arange(len(groups))
            of_row = place[self.group_of_row]
            kept = np.flatnonzero(of_row >= 0)
            histograms = self.histograms_of_rows.take(kept).grouped(of_row[kept], len(groups))
        return bounded(histograms.percentiles(PERCENTS), self.max_ns[groups])

    def _percentiles(self, percents: Sequence[float]) -> NDArray[np.int64]:
        rows = self._row_of_group
        if rows is None or "histograms" in self.__dict__:
            return bounded(self.histograms.percentiles(percents), self.max_ns)
        return bounded(self.histograms_of_rows.percentiles(percents)[rows], self.max_ns)

    @cached_property
    def _row_of_group(self) -> NDArray[np.int64] | None:
        """The one row of each group; None if there are rows in no group, or several in a group. Then the
        histograms need not be put into the order of the groups, which takes longer than their percentiles."""
        if len(self.group_of_row) != len(self) or (self.rows != 1).any():
            return None
        return np.argsort(self.group_of_row, kind="stable")

    @property
    def p50_ns(self) -> NDArray[np.int64]:
        """Median duration (ns) of each group."""
        return self.percentiles_ns[:, 0]

    @property
    def p95_ns(self) -> NDArray[np.int64]:
        """95th percentile (ns) of each group."""
        return self.percentiles_ns[:, 1]

    @cached_property
    def p99_ns(self) -> NDArray[np.int64]:
        """99th percentile (ns) of each group."""
        if "percentiles_ns" in self.__dict__:
            return self.percentiles_ns[:, 2]
        return self._percentiles(PERCENTS[2:])[:, 0]

    def rows_of(self, group: int) -> NDArray[np.int64]:
        """Returns the indices of the rows of the window that are in group number ``group``."""
        return np.flatnonzero(self.group_of_row == group)


def pivot(window: Window, by: Sequence[Dimension], *, all_rows: bool = False) -> Groups:
    """Groups the rows of ``window`` by the dimensions ``by``. If ``by`` is empty, there is one group.

    If ``all_rows`` is True, nested rows and time between calls are counted in any grouping, as is right for a
    window that was narrowed to one operation or layer. Raises ValueError for a dimension that is not in
    ``DIMENSIONS``.
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
    calls, moved, total = add(rows.calls), add(rows.bytes), add(rows.total_ns)
    whole = float(rows.total_ns[outermost].sum())
    seconds = window.seconds if window.seconds > 0 else 1.0

    between = _with(host, group, n) & ~_with(~host, group, n)
    inside = _with(~host & ~outermost, group, n)
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
        share=np.where(between, np.nan, total / whole if whole else np.zeros(n)),
        nested=inside & ~_with(outermost, group, n),
        repeated=inside & ~_with(_own(rows.calls, grouping), group, n),
        between=between,
        rows=np.bincount(target, minlength=n),
        group_of_row=group,
        histograms_of_rows=rows.histograms,
        split_ns=None if rows.split_ns is None else add(rows.split_ns),
    )


def _with(kind: NDArray[np.bool_], group: NDArray[np.int64], groups: int) -> NDArray[np.bool_]:
    """Returns, for each group, True if it contains a row for which ``kind`` is True. ``groups`` is the number
    of groups; ``group`` has the group of each row, as ``Groups.group_of_row``."""
    found = np.zeros(groups, np.bool_)
    found[group[kind & (group >= 0)]] = True
    return found


def _own(calls: U64, grouping: _Grouping) -> NDArray[np.bool_]:
    """Returns, for each row, whether its calls are outermost and more than the few that ``Groups.repeated``
    ignores."""
    inside = np.where(grouping.twin >= 0, calls[grouping.twin], 0).astype(np.float64)
    whole = inside + calls
    few = np.maximum(OWN_SHARE * whole, np.where(whole >= _ONE_CALL_FROM, 1.0, 0.0))
    return np.asarray(grouping.outermost & ((inside == 0.0) | (calls > few)))


def bounded(percentiles_ns: NDArray[np.int64], max_ns: U64) -> NDArray[np.int64]:
    """Returns ``percentiles_ns`` with each percentile replaced by ``max_ns`` if it is greater than ``max_ns``
    but in the same counter of the histogram.

    ``percentiles_ns`` has a row of percentiles for each group, ``max_ns`` the longest call of each group. A
    percentile is the upper edge of a counter, which may be longer than the longest call. A p99 above the
    maximum would confuse the reader.
    """
    edge = np.minimum(max_ns, np.uint64(np.iinfo(np.int64).max)).astype(np.int64)[:, None]
    same = indices_of(percentiles_ns) == indices_of(edge)
    return np.where(same, np.minimum(percentiles_ns, edge), percentiles_ns)


class RowNaming:
    """Keys and labels of the rows of a window in each dimension."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._tenants = window.tenants
        self._placement: Placement | None = None

    @property
    def placement(self) -> Placement:
        """Devices of each process of the window, computed when this is first read."""
        if self._placement is None:
            self._placement = placement(self._window)
        return self._placement

    def part(self, dimension: Dimension, key: RowKey) -> tuple[str, str]:
        """Returns (key, label) of a row in one dimension: its parts of ``Groups.keys`` and
        ``Groups.labels``."""
        if dimension == "device":
            # If a process uses several devices, the device of each of its calls may be unknown. The row then
            # belongs to a group for the set of these devices.
            on = text_of(self.placement.devices(key))
            if not on:
                return "", NO_DEVICE
            # A device that no longer exists may have its UUID as label.
            return f"{key.host}/{on}", on if on.startswith(_OF_UUIDS) else f"GPU {on}"
        return _PART[dimension](key, self._tenants.get(key.tenant, _UNKNOWN))

    def parts(self, by: Sequence[Dimension], key: RowKey) -> GroupName:
        """Returns (key, labels) of the group of a row, as in ``Groups.keys`` and ``Groups.labels``."""
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
    tenants: Mapping[str, Tenant | None]
    """Tenants of these rows, by id. Other tenants of a window may come and go."""
    placement: Placement | None
    """Devices of the processes of that window, if the grouping is by device; else None."""
    order: Sequence[GroupName]
    """(key, labels) of each group, in the order of the groups."""
    group: NDArray[np.int64]
    """Index of the group of each row; -1 if the row is in no group."""
    outermost: NDArray[np.bool_]
    host: NDArray[np.bool_]
    twin: NDArray[np.int64]
    """Index of the row with the nested calls of the same function and process as an outermost row; -1 if
    there is none."""


_NAMED_ROWS: dict[tuple[Dimension, ...], NamedRows] = {}
"""Cache: the names of rows, by grouping."""
_GROUPINGS: dict[tuple[tuple[Dimension, ...], bool], deque[_Grouping]] = {}
"""Cache: the latest groupings for each (``by``, ``everything``). Consecutive windows mostly have the same
rows, and finding the names of the rows takes longer than adding them up."""
_KEPT = 4
"""How many groupings are kept: those of the newest window and of the last seconds, each as a whole and
narrowed to one row."""


def _grouping(window: Window, by: tuple[Dimension, ...], everything: bool) -> _Grouping:
    latest = _GROUPINGS.setdefault((by, everything), deque(maxlen=_KEPT))
    keys = window.rows.keys
    naming = RowNaming(window)
    placed = naming.placement if "device" in by else None
    for known in latest:
        if (
            known.keys == keys
            and known.placement == placed
            and all(window.tenants.get(name) == tenant for name, tenant in known.tenants.items())
        ):
            return known
    tenants = {name: window.tenants.get(name) for name in {key.tenant for key in keys}}
    numbers, outermost, host, twins, names = _NAMED_ROWS.setdefault(by, NamedRows()).of(
        keys, tenants, placed, partial(naming.parts, by)
    )
    counted = np.unique(numbers if everything else numbers[outermost])
    named = sorted((names[number][::-1], number) for number in counted.tolist())
    order = [(name, labels) for (labels, name), _ in named] if by else [((), ())]
    place = np.full(len(names) + 1, -1, np.int64)
    place[[number for _, number in named]] = np.arange(len(named))
    group = place[numbers]
    if not everything:
        group[~outermost] = -1
    nested = {key: number for number, key in enumerate(keys) if key.nested}
    twin = np.full(len(keys), -1, np.int64)
    if nested:
        twin[:] = [-1 if other is None else nested.get(other, -1) for other in twins]
    for array in (group, outermost, host, twin):
        array.setflags(write=False)
    made = _Grouping(keys, tenants, placed, order, group, outermost, host, twin)
    latest.append(made)
    return made


def _process(key: RowKey) -> str:
    return with_pid(key.process, key.pid)  # PID 0: all processes of that name


_PART: dict[Dimension, Callable[[RowKey, Tenant], tuple[str, str]]] = {
    "container": lambda key, tenant: (key.tenant, tenant.name or key.tenant),
    "namespace": lambda key, tenant: (tenant.namespace, tenant.namespace or "no namespace"),
    "pod": lambda key, tenant: (f"{tenant.namespace}/{tenant.pod}", tenant.pod or "no pod"),
    "process": lambda key, tenant: (f"{key.host}/{key.pid}/{key.process}", _process(key)),
    "operation": lambda key, tenant: (key.operation, shown_operation(key.operation)),
    "layer": lambda key, tenant: (key.layer, key.layer),
    "host": lambda key, tenant: (key.host, key.host),
}
"""By dimension: the function that returns (key, label) of a row. The dimension ``device`` is not here,
because it needs the placement (see ``RowNaming.part``)."""
