"""Keeps figures of the last minutes, for causes that show only over time. ``Facts.trend`` returns them to
rules."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

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
"""Maximum number of series. Series of processes that have ended are removed after ``LENGTH_SECONDS``."""


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

    def add(self, window: Window) -> None:
        """Adds the figures of the newest window."""
        now = window.end
        for key, count in _graph_calls(window):
            self._counts[key] = self._counts.get(key, 0) + count
        alive = {key.pid for key in window.rows.keys}
        counted = [(key, float(count)) for key, count in self._counts.items() if key[2] in alive]
        for key, value in (*_figures(window), *_device_work(window), *_rank_lags(window), *counted):
            points = self._points.get(key)
            if points is None:
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

    def _add_longest(self, window: Window) -> None:
        rows = window.rows
        for key, calls, max_ns in zip(rows.keys, rows.calls.tolist(), rows.max_ns.tolist(), strict=True):
            known = self._longest.get(key)
            if not calls or not key.outermost or (known is None and len(self._longest) >= MOST_SERIES):
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


def _graph_calls(window: Window) -> Iterator[tuple[Key, int]]:
    for at, key in enumerate(window.rows.keys):
        what = _GRAPHS.get(kind_of(key.layer, key.operation).family)
        if what is not None and key.outermost:
            yield (what, key.tenant, key.pid), int(window.rows.calls[at])


_WAITING: Final = [SPLITS.index(part) for part in WAITING_PARTS]
_KERNELS: Final = {Family.LAUNCH: 1, Family.GRAPH_LAUNCH: KERNELS_OF_A_GRAPH}


def _device_work(window: Window) -> Iterator[tuple[Key, float]]:
    """Yields, for each process, how many CUDA kernels per second it gives its device and, if it synchronizes,
    how long one such call waits for the device on average, ns."""
    kernels: dict[tuple[str, int], int] = {}
    waits: dict[tuple[str, int], tuple[int, int]] = {}
    splits = window.rows.split_ns
    for at, (key, new) in enumerate(zip(window.rows.keys, window.rows.calls.tolist(), strict=True)):
        if not key.outermost:
            continue
        who = key.tenant, key.pid
        family = kind_of(key.layer, key.operation).family
        kernels[who] = kernels.get(who, 0) + _KERNELS.get(family, 0) * new
        if family is Family.SYNC and splits is not None:
            calls, waited = waits.get(who, (0, 0))
            waits[who] = calls + new, waited + int(splits[at, _WAITING].sum())
    for (tenant, pid), count in kernels.items():
        yield ("kernels_per_s", tenant, pid), count / max(window.seconds, 1e-6)
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
