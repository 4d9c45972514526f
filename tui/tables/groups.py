"""Rows of a window grouped for a table, with what is known of them besides counts. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stalltop.model.comparing.difference import Difference, Side
from stalltop.model.devices.labels import order_of
from stalltop.model.devices.placing import Labels, placement
from stalltop.model.row_key import RowKey
from stalltop.model.rows.pivot import Dimension, Groups, Naming, bounded, pivot
from stalltop.model.window import OpenCall, Window

LONG_OPEN_NS = 1_000_000_000
"""From this age on an open call is worth a warning."""
HUNG_NS = 10_000_000_000
"""From this age on it looks hung."""

LEAST_PAST = 5
"""Windows with calls until the p99 of a row is compared with the median of them."""

Key = tuple[str, ...]
"""What identifies a row of a table, one part a dimension."""


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step down: rows of the group ``key`` of ``dimension`` only."""

    dimension: Dimension
    key: str
    label: str


@dataclass(frozen=True, eq=False)
class Grouped:
    """The rows of a table before they are sorted: element i of every array belongs to ``keys[i]``."""

    window: Window
    """The calls that were grouped."""
    keys: tuple[Key, ...]
    labels: tuple[tuple[str, ...], ...]
    groups: Groups
    at: NDArray[np.int64]
    """Index into ``groups`` of each row, -1 where nothing was counted: a call that hangs, or what is gone."""
    open_ns: NDArray[np.int64]
    """Age of the row's oldest open call, 0 without one."""
    waited_ns: NDArray[np.int64]
    """Time within the window that long open calls of the row have taken so far, all threads together."""
    whole_ns: int
    """What shares are of: the time of all outermost calls below the path of the view."""
    before: Groups | None = None
    """The groups of the window that this one is compared with."""
    before_at: NDArray[np.int64] | None = None
    """Index into ``before`` of each row, -1 where it was not there."""
    before_window: Window | None = None
    """That window, narrowed like this one."""
    p99_past_ns: NDArray[np.float64] | None = None
    """p99 of the row in each of the latest windows, oldest first, shape (n, windows); NaN without a call."""

    def __len__(self) -> int:
        return len(self.keys)

    def of(self, column: NDArray[np.integer] | NDArray[np.floating]) -> NDArray[np.float64]:
        """A column of ``groups`` for each row; NaN where nothing was counted."""
        return _picked(column, self.at)

    def of_before(self, column: NDArray[np.integer] | NDArray[np.floating]) -> NDArray[np.float64]:
        """A column of ``before`` for each row; NaN where the row was not there."""
        if self.before_at is None:
            return np.full(len(self), np.nan)
        return _picked(column, self.before_at)

    @cached_property
    def difference(self) -> Difference | None:
        """What changed since the window that this one is compared with; None without one."""
        if self.before is None or self.before_at is None or self.before_window is None:
            return None
        then = Side(self.before_window, self.before, self.before_at)
        return Difference(then, Side(self.window, self.groups, self.at))

    @cached_property
    def processes(self) -> NDArray[np.int64]:
        """Processes that made the calls of each row."""
        found: list[set[tuple[str, int, str]]] = [set() for _ in range(len(self.groups))]
        for key, group in zip(self.window.rows.keys, self.groups.group_of_row.tolist(), strict=True):
            if group >= 0:
                found[group].add((key.host, key.pid, key.process))
        counts = np.array([len(one) for one in found], np.int64)
        return np.nan_to_num(self.of(counts), nan=0.0).astype(np.int64)

    @cached_property
    def devices(self) -> tuple[Labels, ...]:
        """The devices that each row ran on, or that its processes hold a context on; none where neither is
        known."""
        devices = placement(self.window).devices
        found: list[set[str]] = [set() for _ in range(len(self.groups))]
        for key, group in zip(self.window.rows.keys, self.groups.group_of_row.tolist(), strict=True):
            if group >= 0:
                found[group].update(devices(key))
        return tuple(tuple(sorted(found[at], key=order_of)) if at >= 0 else () for at in self.at.tolist())

    @cached_property
    def incomplete(self) -> frozenset[Key]:
        """Rows known to lack calls: of a tenant or process that is not traced in full, or of a thread that
        ended inside a long call, which then is in no figure."""
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
        naming = Naming(window)
        for call in window.open_calls:
            if call.ended and call.age_ns >= LONG_OPEN_NS:
                found.add(naming.parts(groups.by, key_of(call, window))[0])
        return frozenset(found)

    @cached_property
    def changes(self) -> NDArray[np.float64]:
        """p99 of each row against the median of its own in the windows before; NaN while those are few."""
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
        """p99 of each row against what was learned to be normal; NaN where nothing was.

        Normals are learned by process and operation. A row that holds several of these has the mean of their
        ratios (geometric: twice as slow and twice as fast is as ever), weighted by their time.
        """
        rows, normals, group = self.window.rows, self.window.normals, self.groups.group_of_row
        normal_ns = np.array([normals.get(key, (0, 0))[1] for key in rows.keys], np.float64)
        told = np.flatnonzero((normal_ns > 0) & (group >= 0) & (rows.calls > 0))
        sums = np.zeros((2, len(self.groups)))
        if len(told):
            found = bounded(rows.histograms.take(told).percentiles((99.0,)), rows.max_ns[told])[:, 0]
            logs = np.log(np.maximum(found, 1) / normal_ns[told])
            weights = rows.total_ns[told] + 1.0
            np.add.at(sums[0], group[told], weights * logs)
            np.add.at(sums[1], group[told], weights)
        ratios = np.exp(sums[0] / np.where(sums[1] > 0, sums[1], np.nan))
        return self.of(ratios)


def _picked(column: NDArray[np.integer] | NDArray[np.floating], at: NDArray[np.int64]) -> NDArray[np.float64]:
    if not len(column):
        return np.full(len(at), np.nan)
    return np.where(at >= 0, column[at].astype(np.float64), np.nan)


def scope(window: Window, path: tuple[PathStep, ...]) -> Window:
    """The part of ``window`` below ``path``.

    Once an operation or a layer is chosen, calls made inside other calls stand for themselves: otherwise
    a driver function that is only ever called by the runtime would show nothing. See ``decided``.
    """
    if not path:
        return window
    inside = below(path, window)
    kept = np.fromiter((inside(key) for key in window.rows.keys), np.bool_, len(window.rows))
    rows = window.rows.take(np.flatnonzero(kept))
    open_calls = tuple(call for call in window.open_calls if inside(key_of(call, window)))
    if decided(path):
        rows = replace(rows, keys=tuple(key._replace(nested=False) for key in rows.keys))
        open_calls = tuple(replace(call, nested=False) for call in open_calls)
    return replace(window, rows=rows, open_calls=open_calls)


def below(path: tuple[PathStep, ...], window: Window) -> Callable[[RowKey], bool]:
    """Whether a row of ``window`` is below ``path``."""
    naming = Naming(window)
    return lambda key: all(naming.part(step.dimension, key)[0] == step.key for step in path)


def decided(path: tuple[PathStep, ...]) -> bool:
    """Whether one operation or layer is looked at: its rows then all count, time between calls as well."""
    return any(step.dimension in ("operation", "layer") for step in path)


def key_of(call: OpenCall, window: Window) -> RowKey:
    """The row that ``call`` will be counted in."""
    return RowKey(window.host, *call.row)


def outermost_ns(window: Window) -> int:
    """Time in calls of ``window`` that are not inside others, ns; the time between calls is left out."""
    outermost = np.fromiter((key.outermost for key in window.rows.keys), np.bool_, len(window.rows))
    return int(window.rows.total_ns[outermost].sum())


def calls_per_s(window: Window) -> float:
    """Outermost calls per second: a runtime call with the driver call inside it counts once."""
    outermost = np.fromiter((key.outermost for key in window.rows.keys), np.bool_, len(window.rows))
    return float(window.rows.calls[outermost].sum()) / (window.seconds or 1.0)


def grouped(
    window: Window,
    by: Sequence[Dimension],
    *,
    all_rows: bool = False,
    whole_ns: int = 0,
    against: Window | None = None,
) -> Grouped:
    """Groups of the rows and of the calls still open: a call that hangs has no row and must be seen.

    ``against`` is another window to compare with, narrowed like this one: what is only there has a row too.
    """
    groups = pivot(window, by, all_rows=all_rows)
    labels = dict(zip(groups.keys, groups.labels, strict=True))
    ages: dict[Key, int] = {}
    waited: dict[Key, int] = {}
    everything = all_rows or "operation" in by or "layer" in by
    naming = Naming(window)
    for call in window.open_calls:
        if call.ended or (call.nested and not everything):
            continue
        key, name = naming.parts(by, key_of(call, window))
        if key not in labels:
            if call.age_ns < LONG_OPEN_NS:
                continue  # it will be counted in a moment; rows that come and go are no help
            labels[key] = name
        ages[key] = max(ages.get(key, 0), call.age_ns)
        if call.age_ns >= LONG_OPEN_NS:
            waited[key] = waited.get(key, 0) + min(call.age_ns, int(window.seconds * 1e9))
    before = None if against is None else pivot(against, by, all_rows=all_rows)
    if before is not None:
        for key, name in zip(before.keys, before.labels, strict=True):
            labels.setdefault(key, name)
    keys = tuple(labels)
    return Grouped(
        window=window,
        keys=keys,
        labels=tuple(labels.values()),
        groups=groups,
        at=_found(keys, groups),
        open_ns=np.array([ages.get(key, 0) for key in keys], np.int64),
        waited_ns=np.array([waited.get(key, 0) for key in keys], np.int64),
        whole_ns=whole_ns,
        before=before,
        before_at=None if before is None else _found(keys, before),
        before_window=against,
    )


def _found(keys: Sequence[Key], groups: Groups) -> NDArray[np.int64]:
    """Index into ``groups`` of each of ``keys``, -1 where it is not among them."""
    index = {key: at for at, key in enumerate(groups.keys)}
    return np.array([index.get(key, -1) for key in keys], np.int64)
