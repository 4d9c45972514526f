"""Groups the rows of a window for a table, and adds open calls, earlier windows and baselines. Pure
functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stalltop.model.devices.labels import order_of
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.rows.pivot import Groups, RowNaming, bounded, pivot
from stalltop.model.sharing.placing import Labels, held_bytes, placement
from stalltop.model.window import Window
from stalltop.tui.views.path import key_of
from stalltop.tui.views.reduced import marked
from stalltop.widgets.table import Role

if TYPE_CHECKING:
    from stalltop.model.comparing.difference import Difference

LONG_OPEN_NS = 1_000_000_000
"""Least age, in ns, at which an open call is shown as a warning."""
HUNG_NS = 10_000_000_000
"""Least age, in ns, at which an open call is shown as hung."""

LEAST_PAST = 5
"""The p99 of a row is compared with its median in earlier windows if the row had calls in at least this many
of them."""

Process = tuple[str, int]
"""Identifies a process: its tenant and its PID."""
_OF_TENANTS = frozenset(("container", "namespace", "pod"))
"""The dimensions whose rows are one or several whole tenants."""
Key = tuple[str, ...]
"""Identifies a row of a table: one value for each dimension."""


@dataclass(frozen=True, slots=True)
class AddedRow:
    """A row of processes that make no calls."""

    labels: tuple[str, ...]
    processes: frozenset[Process]
    does: str = ""
    """What these processes do to others, such as ``slows chat-server by 371 ms/s``."""
    role: Role = "accent"
    """The role of ``does``, and of the mark of the row: the severity of the worst problem that they cause."""


NOTHING_ADDED: Mapping[Key, AddedRow] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Grouped:
    """The rows of a table before sorting. Element i of each array belongs to ``keys[i]``."""

    window: Window
    """The window whose calls were grouped."""
    keys: tuple[Key, ...]
    labels: tuple[tuple[str, ...], ...]
    groups: Groups
    at: NDArray[np.int64]
    """Index into ``groups`` for each row; -1 if no call of the row returned: its calls hang, or the row
    exists only in the window to compare with."""
    open_ns: NDArray[np.int64]
    """Age (ns) of the row's oldest open call; 0 if it has none."""
    waited_ns: NDArray[np.int64]
    """Time (ns) within the window that long open calls of the row took so far, summed over threads."""
    open_by: Mapping[Key, set[Process]]
    """The processes of the open calls of each row."""
    whole_ns: int
    """The time (ns) of all outermost calls below the path of the view: 100 % for shares."""
    before: Groups | None = None
    """The groups of the window to compare with."""
    before_at: NDArray[np.int64] | None = None
    """Index into ``before`` for each row; -1 if the row is not in that window."""
    before_window: Window | None = None
    """The window to compare with, narrowed like ``window``."""
    present: Window | None = None
    """The newest part of ``window``, if it is a sum: how busy CPUs are is shown as it is at present."""
    added: Mapping[Key, AddedRow] = field(default_factory=dict)
    """Rows of processes that make no calls, by their keys. A row with such a key may also have calls of other
    processes."""
    lost_ms_per_s: Mapping[Key, float] = field(default_factory=dict)
    """The time (ms/s) that rows lose through problems, by their keys."""
    p99_past_ns: NDArray[np.float64] | None = None
    """The p99 of each row in each of the latest windows, oldest first, shape (n, windows); NaN if it has no
    call."""

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def places(self) -> list[int]:
        """Return ``at`` as a list: single elements of lists are read several times faster."""
        places: list[int] = self.at.tolist()
        return places

    @cached_property
    def _lists(self) -> dict[str, list[Any]]:
        return {}

    def value(self, column: str, i: int) -> Any:
        """Return the value of a column of ``groups`` for row ``i``, which must have a group."""
        found = self._lists.get(column)
        if found is None:
            found = self._lists[column] = getattr(self.groups, column).tolist()
        return found[self.places[i]]

    @cached_property
    def _seen(self) -> dict[int, list[int]]:
        return {}

    def see(self, rows: Sequence[int]) -> None:
        """Compute what takes long for ``rows`` together: those that are about to be drawn."""
        groups = self.at[np.array(rows, np.int64)]
        groups = np.unique(groups[groups >= 0])
        self._seen.update(zip(groups.tolist(), self.groups.percentiles_of(groups).tolist(), strict=True))

    def percentiles_ns(self, i: int) -> list[int]:
        """Return the percentiles ``PERCENTS`` of row ``i``, which must have a group."""
        found = self._seen.get(self.places[i])
        return self.value("percentiles_ns", i) if found is None else found

    def of(self, column: NDArray[np.integer] | NDArray[np.floating]) -> NDArray[np.float64]:
        """Return a column of ``groups`` with a value for each row; NaN if no call returned."""
        return _picked(column, self.at)

    def of_before(self, column: NDArray[np.integer] | NDArray[np.floating]) -> NDArray[np.float64]:
        """Return a column of ``before`` with a value for each row; NaN if the row is not in that window."""
        if self.before_at is None:
            return np.full(len(self), np.nan)
        return _picked(column, self.before_at)

    @cached_property
    def difference(self) -> Difference | None:
        """Return what changed since the window to compare with; None if there is none."""
        if self.before is None or self.before_at is None or self.before_window is None:
            return None
        # imported here, because the first screen compares nothing
        from stalltop.model.comparing.difference import ComparedSide, Difference

        then = ComparedSide(self.before_window, self.before, self.before_at)
        return Difference(then, ComparedSide(self.window, self.groups, self.at))

    @cached_property
    def processes(self) -> NDArray[np.int64]:
        """Return how many processes made the calls of each row."""
        found: list[set[tuple[str, int, str]]] = [set() for _ in range(len(self.groups))]
        for key, group in zip(self.window.rows.keys, self.groups.group_of_row.tolist(), strict=True):
            if group >= 0:
                found[group].add((key.host, key.pid, key.process))
        counts = np.array([len(one) for one in found], np.int64)
        return np.nan_to_num(self.of(counts), nan=0.0).astype(np.int64)

    @cached_property
    def devices(self) -> tuple[Labels, ...]:
        """Return the devices on which the calls of each row ran, or else on which its processes hold a
        context.

        The labels are empty if neither is known.
        """
        devices = placement(self.window).devices
        found: list[set[str]] = [set() for _ in range(len(self.groups))]
        for key, group in zip(self.window.rows.keys, self.groups.group_of_row.tolist(), strict=True):
            if group >= 0:
                found[group].update(devices(key))
        return tuple(tuple(sorted(found[at], key=order_of)) if at >= 0 else () for at in self.at.tolist())

    @cached_property
    def device_bytes(self) -> NDArray[np.float64]:
        """Return the device memory that the processes of each row hold, as the driver lists it; NaN if it
        lists none.

        In a table by device, a row counts the memory on its own device; in other tables, on all devices.
        """
        held, devices = held_bytes(self.window), placement(self.window).devices
        of_device = "device" in self.groups.by
        if not of_device:
            host = self.window.host
            totals = {
                process: float(sum(mine.values()))
                for members in self._members
                for process in members
                if (mine := held.get(process) or held.get((host, process[1])))
            }
            return self._of_processes(totals)
        found: list[dict[tuple[str, int, str], int]] = [{} for _ in range(len(self.groups))]
        for key, group in zip(self.window.rows.keys, self.groups.group_of_row.tolist(), strict=True):
            if group < 0:
                continue
            mine = held.get((key.tenant, key.pid)) or held.get((key.host, key.pid), {})
            for label, size in mine.items():
                if label in devices(key):
                    found[group][key.host, key.pid, label] = size
        sums = np.array([sum(one.values()) if one else np.nan for one in found], np.float64)
        return self.of(sums)

    @cached_property
    def _members(self) -> list[set[Process]]:
        """Return the processes of each row: those that made its calls or, in a table of tenants, all that are
        measured."""
        found: list[set[Process]] = [set() for _ in range(len(self.groups))]
        for key, group in zip(self.window.rows.keys, self.groups.group_of_row.tolist(), strict=True):
            if group >= 0:
                found[group].add((key.tenant, key.pid))
        added = {key: set(row.processes) for key, row in self.added.items()}
        rows = zip(self.keys, self.at.tolist(), strict=True)
        members = [
            (found[at] if at >= 0 else set[Process]()).union(added.get(key, ()), self.open_by.get(key, ()))
            for key, at in rows
        ]
        if not _OF_TENANTS.issuperset(self.groups.by):
            return members
        measured: dict[str, set[Process]] = {}
        for use in self.window.evidence.processes:
            measured.setdefault(use.tenant, set()).add((use.tenant, use.pid))
        return [row.union(*(measured.get(tenant, ()) for tenant, _ in row)) for row in members]

    def _of_processes(self, figures: Mapping[Process, float]) -> NDArray[np.float64]:
        """Return the sum of ``figures`` over the processes of each row; NaN if none has a figure."""
        sums = np.full(len(self), np.nan)
        for row, members in enumerate(self._members):
            known = [figures[member] for member in members if member in figures]
            if known:
                sums[row] = sum(known)
        return sums

    @cached_property
    def cpu_percent(self) -> NDArray[np.float64]:
        """Return the CPU time of the processes of each row at present, in percent of one CPU; NaN if not
        measured. In a table of tenants, the time that their cgroups used counts, if it is more."""
        window = self.window if self.present is None else self.present
        scale, evidence = 100 / (window.seconds or 1.0) / 1e9, window.evidence
        if not any(use.cpu_ns for use in evidence.processes) and not any(
            use.cpu_ns for use in evidence.tenants
        ):
            # CPU time is the difference of two readings. After the first reading, all times are 0.
            return np.full(len(self), np.nan)
        found = self._of_processes({(use.tenant, use.pid): scale * use.cpu_ns for use in evidence.processes})
        if not _OF_TENANTS.issuperset(self.groups.by):
            return found
        whole = {use.tenant: scale * use.cpu_ns for use in evidence.tenants}
        tenants = ({tenant for tenant, _ in members} for members in self._members)
        return np.fmax(found, [sum(whole.get(one, 0.0) for one in row) or np.nan for row in tenants])

    @cached_property
    def rss_bytes(self) -> NDArray[np.float64]:
        """Return the resident memory of the processes of each row; NaN if not measured."""
        uses = self.window.evidence.processes
        return self._of_processes({(use.tenant, use.pid): use.rss_bytes for use in uses if use.rss_bytes})

    @cached_property
    def owners(self) -> tuple[tuple[str, ...], ...]:
        """Return the users or namespaces of the tenants of each row; empty if none is known."""
        tenants = self.window.tenants
        name = {one: tenant.user or tenant.namespace for one, tenant in tenants.items()}
        return tuple(
            tuple(sorted({name.get(tenant, "") for tenant, _ in members} - {""})) for members in self._members
        )

    @cached_property
    def incomplete(self) -> frozenset[Key]:
        """Return the rows whose figures do not contain all of their calls: a thread ended inside a
        long call, which no figure contains; or, in tables by container, pod or process without operations and
        layers, their tenant or process is not traced completely."""
        window, groups = self.window, self.groups
        missing = window.coverage.missing
        tenants = {one.tenant for one in missing if one.tenant}
        pids = {one.pid for one in missing if one.pid}
        found: set[Key] = set()
        named = {"container", "pod", "process"}.intersection(groups.by)
        if (tenants or pids) and named and not {"operation", "layer"}.intersection(groups.by):
            for key, group in zip(window.rows.keys, groups.group_of_row.tolist(), strict=True):
                if group >= 0 and (key.tenant in tenants or key.pid in pids):
                    found.add(groups.keys[group])
        naming = RowNaming(window)
        for call in window.open_calls:
            if call.ended and call.age_ns >= LONG_OPEN_NS:
                found.add(naming.parts(groups.by, key_of(call, window))[0])
        return frozenset(found)

    @cached_property
    def changes(self) -> NDArray[np.float64]:
        """Return the p99 of each row divided by the median of its p99 in earlier windows; NaN if the row had
        calls in fewer than ``LEAST_PAST`` of them."""
        past = self.p99_past_ns
        usual = np.full(len(self), np.nan)
        if past is not None:
            number = np.isfinite(past).sum(axis=1)
            known = np.flatnonzero(number >= LEAST_PAST)
            ordered, number = np.sort(past[known], axis=1), number[known]  # NaN comes last
            rows = np.arange(len(known))
            usual[known] = (ordered[rows, (number - 1) // 2] + ordered[rows, number // 2]) / 2
        return self.of(self.groups.p99_ns) / np.where(usual > 0, usual, np.nan)

    @cached_property
    def against_normal(self) -> NDArray[np.float64]:
        """Return the p99 of each row divided by its baseline; NaN if none was learned.

        A baseline belongs to one operation of one process. A row with several baselines gets the geometric
        mean of their ratios, weighted by time. In this mean, twice as slow and twice as fast cancel out.
        """
        told, logs = _against_baselines(self.window)
        group = self.groups.group_of_row[told]
        told, logs, group = told[group >= 0], logs[group >= 0], group[group >= 0]
        sums = np.zeros((2, len(self.groups)))
        if len(told):
            weights = self.window.rows.total_ns[told] + 1.0
            np.add.at(sums[0], group, weights * logs)
            np.add.at(sums[1], group, weights)
        ratios = np.exp(sums[0] / np.where(sums[1] > 0, sums[1], np.nan))
        return self.of(ratios)


@lru_cache(maxsize=1)
def _against_baselines(window: Window) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the indices of the rows of ``window`` that have calls and a baseline, and the logarithm of each
    row's p99 divided by its baseline. All tables of a window share the result."""
    rows, normals = window.rows, window.normals
    if not normals:
        return np.zeros(0, np.int64), np.zeros(0)
    normal_ns = np.array([normals.get(key, (0, 0))[1] for key in rows.keys], np.float64)
    told = np.flatnonzero((normal_ns > 0) & (rows.calls > 0))
    found = bounded(rows.histograms.take(told).percentiles((99.0,)), rows.max_ns[told])[:, 0]
    return told, np.log(np.maximum(found, 1) / normal_ns[told])


def _picked(column: NDArray[np.integer] | NDArray[np.floating], at: NDArray[np.int64]) -> NDArray[np.float64]:
    if not len(column):
        return np.full(len(at), np.nan)
    return np.where(at >= 0, column[at].astype(np.float64), np.nan)


def grouped(
    window: Window,
    by: Sequence[Dimension],
    *,
    all_rows: bool = False,
    whole_ns: int = 0,
    against: Window | None = None,
    added: Mapping[Key, AddedRow] = NOTHING_ADDED,
    nested: bool = True,
) -> Grouped:
    """Group the rows and the open calls of ``window``. A call that hangs is in no row of the window, yet it
    must be visible; so must the processes of ``added``, which make no calls.

    ``against`` is a window to compare with, narrowed like ``window``. Groups that only ``against`` contains
    are included. ``nested``: operations whose nested calls are not traced have a row, too.
    """
    groups = pivot(window, by, all_rows=all_rows)
    labels = dict(zip(groups.keys, groups.labels, strict=True))
    ages: dict[Key, int] = {}
    waited: dict[Key, int] = {}
    callers: dict[Key, set[Process]] = {}
    everything = all_rows or "operation" in by or "layer" in by
    naming = RowNaming(window)
    for call in window.open_calls:
        if call.ended or (call.nested and not everything):
            continue
        key, name = naming.parts(by, key_of(call, window))
        if key not in labels:
            if call.age_ns < LONG_OPEN_NS:
                continue  # it will return soon: do not add a row that would vanish again
            labels[key] = name
        callers.setdefault(key, set()).add((call.tenant, call.pid))
        ages[key] = max(ages.get(key, 0), call.age_ns)
        if call.age_ns >= LONG_OPEN_NS:
            waited[key] = waited.get(key, 0) + min(call.age_ns, int(window.seconds * 1e9))
    before = None if against is None else pivot(against, by, all_rows=all_rows)
    if before is not None:
        for key, name in zip(before.keys, before.labels, strict=True):
            labels.setdefault(key, name)
    for key, row in added.items():
        labels.setdefault(key, row.labels)
    labels = marked(labels, by, window, nested=nested)
    keys = tuple(labels)
    return Grouped(
        window=window,
        keys=keys,
        labels=tuple(labels.values()),
        groups=groups,
        at=_found(keys, groups),
        open_ns=np.array([ages.get(key, 0) for key in keys], np.int64),
        waited_ns=np.array([waited.get(key, 0) for key in keys], np.int64),
        open_by=callers,
        whole_ns=whole_ns,
        before=before,
        before_at=None if before is None else _found(keys, before),
        before_window=against,
        added=added,
    )


def _found(keys: Sequence[Key], groups: Groups) -> NDArray[np.int64]:
    """Return the index into ``groups`` of each of ``keys``; -1 if it is not there."""
    index = {key: at for at, key in enumerate(groups.keys)}
    return np.array([index.get(key, -1) for key in keys], np.int64)
