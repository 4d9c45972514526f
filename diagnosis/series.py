"""Keeps figures of the last minutes, for causes that show only over time. ``Facts.trend`` returns them to
rules."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Final, TypeVar

import numpy as np

from stalltop.model.evidence import Rank
from stalltop.model.families import KERNELS_OF_A_GRAPH, WAITING_PARTS, Family, kind_of
from stalltop.model.row_key import RowKey
from stalltop.model.window import SPLITS, Window

Key = tuple[str, str, int]
"""(name of the series, tenant, process id); the process id is 0 for a series of the whole tenant."""

LENGTH_SECONDS: Final = 900.0
EVERY_SECONDS: Final = 2.0
"""Time between two points of a series, s. Slow growth needs no more points, and memory stays small."""
MOST_SERIES: Final = 2048
"""Maximum number of series. Series of processes that have ended are removed after ``LENGTH_SECONDS``. If
there are so many, the tenant with the most loses its oldest ones to others: nobody can keep others from being
followed."""
_AT_ONCE: Final = MOST_SERIES // 16
"""Number of series that are removed together, and by how much more a tenant must have to lose some: so two
tenants with very many do not take them from each other all the time."""
_ENDED_SECONDS: Final = 10.0
"""A series without a new value for this long has ended, s."""
K = TypeVar("K", Key, RowKey)


class Series:
    """Holds the series of one host. The windows of the host must be added in order."""

    def __init__(self) -> None:
        self._points: dict[Key, deque[tuple[float, float]]] = {}
        self._counts: dict[Key, int] = {}
        """Number of graphs made or launched since the process was first seen. It is removed together with its
        series."""
        self._longest: dict[RowKey, int] = {}
        self._longest_at: dict[RowKey, float] = {}
        """For each row of outermost calls: the end of the window in which its longest call returned (Unix
        time)."""
        self._longest_since = math.inf
        """No longest call returned before this time."""
        self._roles = _Roles(())
        """What the rows of the latest window are. Consecutive windows mostly have the same rows."""

    def add(self, window: Window) -> None:
        """Adds the figures of the newest window."""
        now = window.end
        if self._roles.keys != window.rows.keys:
            self._roles = _Roles(window.rows.keys)
        for key, count in _graph_calls(window, self._roles):
            self._counts[key] = self._counts.get(key, 0) + count
        alive = self._roles.pids
        counted = [(key, float(count)) for key, count in self._counts.items() if key[2] in alive]
        work = _device_work(window, self._roles)
        room = _Room(now)
        for key, value in (*_figures(window), *work, *_rank_lags(window), *counted):
            points = self._points.get(key)
            if points is None:
                if len(self._points) >= MOST_SERIES:
                    for ended in room.taken(self._last, _tenant_of, key[1]):
                        del self._points[ended]
                if len(self._points) >= MOST_SERIES:
                    continue
                points = self._points[key] = deque()
            if points and now < points[-1][0]:  # The clock was set back.
                points.clear()
            if not points or now - points[-1][0] >= EVERY_SECONDS:
                points.append((now, value))
        for key, points in list(self._points.items()):
            while points and points[0][0] < now - LENGTH_SECONDS:
                points.popleft()
            if not points:
                del self._points[key]
        self._counts = {key: count for key, count in self._counts.items() if key in self._points}
        self._add_longest(window)

    def _last(self) -> dict[Key, float]:
        """Returns when each series got its last value."""
        return {key: points[-1][0] for key, points in self._points.items()}

    def _add_longest(self, window: Window) -> None:
        rows = window.rows
        outermost = self._roles.outermost
        room = _Room(window.end)
        for row, calls, max_ns in zip(
            outermost, rows.calls[outermost].tolist(), rows.max_ns[outermost].tolist(), strict=True
        ):
            key = rows.keys[row]
            known = self._longest.get(key)
            if not calls:
                continue
            if known is None and len(self._longest) >= MOST_SERIES:
                for one in room.taken(lambda: self._longest_at, _tenant_of_row, key.tenant):
                    del self._longest[one], self._longest_at[one]
                if len(self._longest) >= MOST_SERIES:
                    continue
            if known is None or max_ns >= known:
                self._longest[key], self._longest_at[key] = max_ns, window.end
        self._longest_since = min(self._longest_since, window.end)
        oldest = window.end - LENGTH_SECONDS
        if self._longest_since < oldest:
            self._longest_at = {key: at for key, at in self._longest_at.items() if at >= oldest}
            self._longest = {key: self._longest[key] for key in self._longest_at}
            self._longest_since = min(self._longest_at.values(), default=math.inf)

    @property
    def longest_ns(self) -> Mapping[RowKey, int]:
        """Returns the duration of the longest call in the last ``LENGTH_SECONDS``, ns, for each row of
        outermost calls."""
        return self._longest

    @property
    def points(self) -> Mapping[Key, Sequence[tuple[float, float]]]:
        """Returns the points (Unix time, value) of each series, oldest first."""
        return self._points


def _tenant_of(key: Key) -> str:
    return key[1]


def _tenant_of_row(key: RowKey) -> str:
    return key.tenant


class _Room:
    """Chooses, in one window, which series give room to others."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._counts = Counter[str]()
        """Number of series by tenant."""

    def taken(
        self, last: Callable[[], dict[K, float]], tenant_of: Callable[[K], str], newcomer: str
    ) -> list[K]:
        """Returns the series that are to be removed, so that the tenant ``newcomer`` gets one: those that
        have ended, otherwise the oldest of the tenant that has the most, but none if ``newcomer`` has nearly
        as many. ``last`` returns when each series got its last value."""
        if self._counts and not self._is_smaller(newcomer):
            return []
        times = last()
        self._counts = Counter(map(tenant_of, times))
        oldest = nsmallest(_AT_ONCE, times, key=times.__getitem__)
        ended = [one for one in oldest if times[one] < self._now - _ENDED_SECONDS]
        if not ended and self._is_smaller(newcomer):
            ((largest, _),) = self._counts.most_common(1)
            ended = nsmallest(
                _AT_ONCE, (one for one in times if tenant_of(one) == largest), key=times.__getitem__
            )
        if ended:
            self._counts.clear()
        return ended

    def _is_smaller(self, tenant: str) -> bool:
        ((_, most),) = self._counts.most_common(1)
        return self._counts[tenant] + _AT_ONCE < most


def _figures(window: Window) -> Iterator[tuple[Key, float]]:
    held: dict[str, float] = {}
    for use in window.evidence.processes:
        if use.held_bytes is not None:
            yield ("held_bytes", use.tenant, use.pid), float(use.held_bytes)
            held[use.tenant] = held.get(use.tenant, 0.0) + use.held_bytes
    for tenant, total in held.items():
        yield ("held_bytes", tenant, 0), total
    calling = {key.tenant for key in window.rows.keys}
    for tenant_use in window.evidence.tenants:
        if tenant_use.exits and tenant_use.tenant in calling:
            yield ("exits", tenant_use.tenant, 0), float(tenant_use.exits)
    used: dict[tuple[str, int], float] = {}
    for device in window.devices.devices:
        for process in device.processes:
            if process.memory_bytes is not None and process.tenant:
                key = process.tenant, process.pid
                used[key] = used.get(key, 0.0) + process.memory_bytes
    for (tenant, pid), value in used.items():
        yield ("device_memory_bytes", tenant, pid), value


_GRAPHS: Final = {Family.GRAPH_INSTANTIATE: "graphs_made", Family.GRAPH_LAUNCH: "graphs_launched"}
_WAITING: Final = [SPLITS.index(part) for part in WAITING_PARTS]
_KERNELS: Final = {Family.LAUNCH: 1, Family.GRAPH_LAUNCH: KERNELS_OF_A_GRAPH}


class _Roles:
    """What the rows with the keys ``keys`` mean for series: the part of the work on a window that does not
    depend on its figures. Rows are given by their indices; only rows of outermost calls are listed."""

    def __init__(self, keys: tuple[RowKey, ...]) -> None:
        self.keys = keys
        self.pids = {key.pid for key in keys}
        self.outermost = [row for row, key in enumerate(keys) if key.outermost]
        self.callers = dict.fromkeys((keys[row].tenant, keys[row].pid) for row in self.outermost)
        self.graphs: list[tuple[int, Key]] = []
        """Rows that make or launch graphs, each with its series."""
        self.launches: list[tuple[int, int]] = []
        """Rows that launch CUDA kernels, each with the number of CUDA kernels of one call."""
        self.syncs: list[int] = []
        """Rows that wait for the device."""
        for row in self.outermost:
            key = keys[row]
            family = kind_of(key.layer, key.operation).family
            if family in _GRAPHS:
                self.graphs.append((row, (_GRAPHS[family], key.tenant, key.pid)))
            if family in _KERNELS:
                self.launches.append((row, _KERNELS[family]))
            if family is Family.SYNC:
                self.syncs.append(row)


def _graph_calls(window: Window, roles: _Roles) -> Iterator[tuple[Key, int]]:
    for row, key in roles.graphs:
        yield key, int(window.rows.calls[row])


def _device_work(window: Window, roles: _Roles) -> Iterator[tuple[Key, float]]:
    """Yields, for each process, how many CUDA kernels per second it gives its device and, if it synchronizes,
    how long one such call waits for the device on average, ns."""
    rows = window.rows
    kernels = dict.fromkeys(roles.callers, 0)
    for row, each in roles.launches:
        kernels[rows.keys[row].tenant, rows.keys[row].pid] += each * int(rows.calls[row])
    for (tenant, pid), count in kernels.items():
        yield ("kernels_per_s", tenant, pid), count / max(window.seconds, 1e-6)
    if rows.split_ns is None:
        return
    waits: dict[tuple[str, int], tuple[int, int]] = {}
    waiting_ns = rows.split_ns[np.ix_(roles.syncs, _WAITING)].sum(axis=1).tolist()
    for row, ns in zip(roles.syncs, waiting_ns, strict=True):
        who = rows.keys[row].tenant, rows.keys[row].pid
        calls, waited = waits.get(who, (0, 0))
        waits[who] = calls + int(rows.calls[row]), waited + ns
    for (tenant, pid), (calls, waited) in waits.items():
        if calls:
            yield ("device_wait_ns", tenant, pid), waited / calls


def _rank_lags(window: Window) -> Iterator[tuple[Key, float]]:
    """Yields, for each rank that waits for another rank of this host to enter a collective, for how many ns
    it has been waiting."""
    communicators: dict[str, list[Rank]] = {}
    for rank in window.evidence.ranks:
        communicators.setdefault(rank.communicator, []).append(rank)
    for ranks in communicators.values():
        ahead = [rank for rank in ranks if rank.behind == 0]
        if len(ahead) < len(ranks):
            for rank in ahead:
                yield ("rank_lag_ns", rank.tenant, rank.pid), float(rank.since_entry_ns)
