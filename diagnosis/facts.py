"""Prepares a window for rules: rows as plain figures, evidence by process and by tenant, and baselines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stalltop.diagnosis.blame import Blame, ChainKey
from stalltop.diagnosis.held import HeldUses
from stalltop.model.evidence import (
    HOST_GAP,
    HOST_LAYER,
    HOST_WORK,
    BlockIo,
    Charge,
    ProcessUse,
    Rank,
    TenantUse,
)
from stalltop.model.families import Family, kind_of
from stalltop.model.row_key import RowKey
from stalltop.model.rows.pivot import bounded
from stalltop.model.window import SPLITS, OpenCall, Window

_PERCENTS: Final = (50.0, 99.0)
NO_SERIES: Final[Mapping[tuple[str, str, int], Sequence[tuple[float, float]]]] = {}


class Row(NamedTuple):
    """One row of the window in plain figures."""

    key: RowKey
    calls: int
    errors: int
    bytes: int
    total_ns: int
    max_ns: int
    p50_ns: int
    p99_ns: int
    split_ns: Mapping[str, int]
    """Time in ns by part of the split (``model.window.SPLITS``); empty if splits were not measured."""
    normal_p99_ns: int | None = None
    """The p99 of the baseline, which is learned from windows without problems; None until it is known."""
    normal_p50_ns: int | None = None
    usual_ns: Mapping[str, float] | None = None
    """Mean time in ns that one call spends in each of ``SPLITS`` according to the baseline; None until a few
    windows without problems were seen."""

    def share(self, part: str) -> float:
        """Returns the share of the row's time that was spent in ``part`` (one of ``SPLITS``), 0 to 1."""
        return self.split_ns.get(part, 0) / self.total_ns if self.total_ns else 0.0

    def beyond_usual(self, part: str) -> float:
        """Returns the ns spent in ``part`` beyond what the same number of calls usually spends there; all of
        the ns in ``part`` if the usual time is not known."""
        ns = self.split_ns.get(part, 0)
        usual = self.usual_ns.get(part, 0.0) * self.calls if self.usual_ns is not None else 0.0
        return max(ns - usual, 0.0)


_NONE_USUAL: Final[Mapping[RowKey, Mapping[str, float]]] = {}
_NONE_LONGEST: Final[Mapping[RowKey, int]] = {}
_NONE_BLAMED: Final[Mapping[ChainKey, Blame]] = {}
_NOBODY: Final = Blame()


class Facts:
    """What rules need to know about a window. Unless stated otherwise, all results are of ``window``. This is
    one window, or the merged windows of the last few seconds."""

    def __init__(
        self,
        window: Window,
        *,
        normal: Mapping[RowKey, tuple[int, int]] | None = None,
        series: Mapping[tuple[str, str, int], Sequence[tuple[float, float]]] = NO_SERIES,
        own_pid: int = 0,
        usual: Mapping[RowKey, Mapping[str, float]] = _NONE_USUAL,
        longest_ns: Mapping[RowKey, int] = _NONE_LONGEST,
        blamed: Mapping[ChainKey, Blame] = _NONE_BLAMED,
        parts: Sequence[Window] = (),
        held: HeldUses | None = None,
    ) -> None:
        """``normal`` has (p50_ns, p99_ns) of the rows with a baseline. ``series`` has the points that
        ``trend`` returns. ``usual`` has the values for ``Row.usual_ns``. ``longest_ns`` has the duration of
        the longest call of each row in the last minutes. ``blamed`` has the culprits that each chain has
        blamed so far. ``parts`` are the windows that were merged to ``window``, oldest first. ``held`` has
        the limits that fixes of earlier windows proposed."""
        self.window = window
        self.seconds = max(window.seconds, 1e-6)
        self.own_pid = own_pid
        """PID of stalltop; 0 if unknown."""
        self._series = series
        self.percentiles_ns: NDArray[np.int64] = bounded(
            window.rows.histograms.percentiles(_PERCENTS), window.rows.max_ns
        )
        """p50 and p99 of each row of the window, shape (n, 2)."""
        self.rows = _rows(window, self.percentiles_ns, normal or {}, usual)
        evidence = window.evidence
        self._rows_of = _by_pid(self.rows, lambda row: row.key.pid)
        self._calls_of = {
            pid: calls
            for pid, rows in self._rows_of.items()
            if (calls := [row for row in rows if row.key.outermost])
        }
        self._charges_of = _by_pid(evidence.charges, attrgetter("pid"))
        self._io_of = _by_pid(evidence.block_io, attrgetter("pid"))
        self._process = {use.pid: use for use in evidence.processes}
        self._children_of = _by_pid(evidence.processes, attrgetter("parent_pid"))
        self._tenant = {use.tenant: use for use in evidence.tenants}
        self._wall_ns: dict[int, float] = {}
        self.normal = normal or {}
        """(p50_ns, p99_ns) of the rows with a baseline."""
        self._longest_ns = longest_ns
        self._blamed = blamed
        self._parts = parts
        self._held = HeldUses() if held is None else held

    def held_use(self, tenant: str, resource: str, use: float) -> float:
        """Returns the use of a ``resource`` by ``tenant`` from which a fix computes a limit: ``use``, or the
        one of an earlier window if that is still about right."""
        return self._held.hold((tenant, resource), use, self.window.end)

    def used_cpus(self, tenant: str) -> float:
        """Returns how many CPUs ``tenant`` used in the part of the window in which it used most: one that has
        just begun to work did less in the parts before."""
        used = (
            use.cpu_ns / 1e9 / max(part.seconds, 1e-6)
            for part in (self._parts or (self.window,))
            for use in part.evidence.tenants
            if use.tenant == tenant
        )
        return max(used, default=0.0)

    def seconds_since(self, seen: Callable[[Window], bool]) -> float:
        """Returns the length in seconds of the window without the parts before the first one in which
        something was ``seen``: what begins in the middle of a window has the rate that it has from then
        on."""
        seconds = self.seconds
        for part in self._parts:
            if seen(part):
                break
            seconds -= part.seconds
        return seconds if seconds > 0 else self.seconds

    @cached_property
    def callers(self) -> tuple[int, ...]:
        """Returns the PIDs of the processes that made traced calls."""
        return tuple(
            pid for pid, rows in self._rows_of.items() if any(row.key.layer != HOST_LAYER for row in rows)
        )

    def rows_of(self, pid: int) -> Sequence[Row]:
        """Returns all rows of a process."""
        return self._rows_of.get(pid, ())

    def rows_alike(self, key: RowKey) -> Sequence[Row]:
        """Returns the rows that differ from the row ``key`` at most in their device."""
        return self._rows_alike.get(key[:-1], ())

    @cached_property
    def _rows_alike(self) -> Mapping[tuple[object, ...], list[Row]]:
        found: defaultdict[tuple[object, ...], list[Row]] = defaultdict(list)
        for row in self.rows:
            found[row.key[:-1]].append(row)
        return dict(found)

    def calls_of(self, pid: int) -> Sequence[Row]:
        """Returns the rows of the outermost traced calls of a process."""
        return self._calls_of.get(pid, ())

    def gaps_of(self, pid: int) -> list[Row]:
        """Returns the rows with the time between the outermost calls of a process, the longest first. There
        is one row for each device that the threads of the process use."""
        gaps = [row for row in self.rows_of(pid) if row.key.operation == HOST_GAP]
        return sorted(gaps, key=lambda row: -row.total_ns)

    def work_of(self, pid: int) -> Row | None:
        """Returns the row with the host work of a process; None if there is none. Host work is the time of a
        followed thread between two wake-ups, of threads that make traced calls or are followed themselves."""
        return next((row for row in self.rows_of(pid) if row.key.operation == HOST_WORK), None)

    def charges_of(self, pid: int) -> Sequence[Charge]:
        """Returns the charges for time that a process lost."""
        return self._charges_of.get(pid, ())

    def io_of(self, pid: int) -> Sequence[BlockIo]:
        """Returns the block I/O of a process."""
        return self._io_of.get(pid, ())

    def blame(self, cause: str, tenant: str, about: str = "") -> Blame:
        """Returns the culprits that the chain of ``cause`` has blamed so far for the time that ``tenant``
        lost."""
        return self._blamed.get((cause, tenant, about), _NOBODY)

    @property
    def pids(self) -> Collection[int]:
        """Returns the PIDs of the processes whose use of resources is known."""
        return self._process.keys()

    def process(self, pid: int) -> ProcessUse | None:
        """Returns the use of resources by a process; None if that is not known."""
        return self._process.get(pid)

    def children_of(self, pid: int) -> Sequence[ProcessUse]:
        """Returns the use of resources by each known child of a process."""
        return self._children_of.get(pid, ())

    def use(self, tenant: str) -> TenantUse | None:
        """Returns the use of resources by a tenant; None if that is not known."""
        return self._tenant.get(tenant)

    @property
    def ranks(self) -> Sequence[Rank]:
        """Returns all ranks of NCCL communicators."""
        return self.window.evidence.ranks

    def name(self, tenant: str) -> str:
        """Returns the name of a tenant as shown to users."""
        found = self.window.tenants.get(tenant)
        return (found.name if found else "") or tenant or "the host"

    def per_second(self, value: float) -> float:
        """Converts ``value``, a sum over the window, to a rate per second."""
        return value / self.seconds

    def within(self, row: Row) -> float:
        """Returns the largest part of the row's time that can lie in the window, 0 to 1. A call is counted
        with its whole time when it ends, so the time of a call that began earlier lies partly before the
        window."""
        most = row.calls * self.seconds * 1e9
        return 1.0 if row.total_ns <= most else most / row.total_ns

    def wall_ns(self, pid: int) -> float:
        """Returns the ns that the calling threads of ``pid`` spent in calls and in the gaps between calls,
        all threads added up; at least the length of the window."""
        known = self._wall_ns.get(pid)
        if known is None:
            rows = [row for row in self.rows_of(pid) if row.key.outermost or row.key.operation == HOST_GAP]
            known = max(sum(row.total_ns * self.within(row) for row in rows), self.seconds * 1e9)
            self._wall_ns[pid] = known
        return known

    def longest_ns(self, call: OpenCall) -> int | None:
        """Returns the longest duration, in ns, that was usual so far for calls like the open call ``call``.
        It is the longest of the last minutes, or the p99 of the baseline if that is longer.

        Calls are alike if they belong to the same row or, if neither a baseline nor a returned call of that
        row is known, to the same process and family. Returns None if no such calls are known, or if only the
        family OTHER is left to compare.
        """
        key = RowKey(self.window.host, *call.row)
        known = {row.key: row.max_ns for row in self.calls_of(call.pid) if row.calls}
        for other, longest_ns in self._longest_ns.items():
            if other.pid == call.pid:
                known[other] = max(longest_ns, known.get(other, 0))
        normal_ns = self.normal[key][1] if key in self.normal else 0
        if normal_ns or key in known:
            return max(normal_ns, known.get(key, 0))
        family = kind_of(call.layer, call.operation).family
        alike = [ns for other, ns in known.items() if kind_of(other.layer, other.operation).family is family]
        return max(alike, default=None) if family is not Family.OTHER else None

    def trend(self, what: str, tenant: str, pid: int = 0) -> Sequence[tuple[float, float]]:
        """Returns the points (Unix time, value) of one series of ``diagnosis.series`` over the last minutes,
        oldest first. ``what`` is the name of the series, such as ``held_bytes``; ``pid`` 0 means the tenant
        as a whole. Returns an empty sequence if there is no such series."""
        return self._series.get((what, tenant, pid), ())


def _rows(
    window: Window,
    percentiles_ns: NDArray[np.int64],
    normal: Mapping[RowKey, tuple[int, int]],
    usual: Mapping[RowKey, Mapping[str, float]],
) -> tuple[Row, ...]:
    rows = window.rows
    p50_ns, p99_ns = percentiles_ns.T.tolist()
    columns = (rows.calls, rows.errors, rows.bytes, rows.total_ns, rows.max_ns)
    splits: Iterable[Mapping[str, int]] = repeat({})
    if rows.split_ns is not None:
        splits = (dict(zip(SPLITS, split, strict=True)) for split in rows.split_ns.tolist())
    # Converting whole columns to plain numbers is several times as fast as converting single elements.
    known = [normal.get(key, (None, None)) for key in rows.keys]
    normal_p50_ns, normal_p99_ns = zip(*known, strict=True) if known else ((), ())
    figures = zip(
        *(rows.keys, *(column.tolist() for column in columns), p50_ns, p99_ns, splits),
        *(normal_p99_ns, normal_p50_ns, map(usual.get, rows.keys)),
        strict=False,
    )
    return tuple(map(Row._make, figures))


_Item = TypeVar("_Item")


def _by_pid(items: Sequence[_Item], pid_of: Callable[[_Item], int]) -> dict[int, list[_Item]]:
    found: defaultdict[int, list[_Item]] = defaultdict(list)
    for item in items:
        found[pid_of(item)].append(item)
    return dict(found)
