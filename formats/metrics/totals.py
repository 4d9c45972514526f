"""Running totals of all windows of a host since this process began to read them."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stalltop.formats.metrics.buckets import POWERS, Buckets
from stalltop.formats.metrics.catalogue import FIGURES
from stalltop.formats.metrics.labels import (
    ITSELF,
    LINUX,
    OTHER,
    OTHER_CULPRIT,
    OTHER_TENANT,
    ActivityLabels,
    CallLabels,
    CulpritLabel,
    DeviceLabels,
    FigureLabels,
    LossLabels,
    ProblemLabels,
    WindowLabels,
    XidLabels,
)
from stalltop.formats.metrics.series import BoundedSeries
from stalltop.model.chain import worst_first
from stalltop.model.evidence import HOST_GAP
from stalltop.model.window import LOSSES, SPLITS, Window

ENDED_SECONDS: Final = 120.0
"""Seconds after which the series of a tenant, GPU or culprit end that windows no longer have: long enough for
Prometheus to see the last values with the longest usual interval (1 min), and short enough that graphs do not
go on flat."""
MOST_LOSSES: Final = 1000
MOST_ACTIVITIES: Final = 1000
MOST_FIGURES: Final = 4096
"""GPUs times counters: 256 GPUs or MIG devices."""
MOST_XIDS: Final = 256
MOST_PROBLEMS: Final = 200
_GAP_SECONDS: Final = 0.1
"""Shortest time between two windows that counts as unobserved: consecutive windows are milliseconds apart."""

CALLS_COLUMN, ERRORS_COLUMN, BYTES_COLUMN, TIME_COLUMN = range(4)
"""Columns of ``HostTotals.calls``; the durations (ns) are in the last of these."""
PARTS_COLUMN: Final = TIME_COLUMN + 1
"""First of the columns with the ns of each part, in the order of ``SPLITS``."""
BUCKETS_COLUMN: Final = PARTS_COLUMN + len(SPLITS)
"""First of the columns with the calls of each bucket."""

K = TypeVar("K", bound=tuple[Any, ...])


class ProblemFigures(NamedTuple):
    """An open problem, or several with the same labels."""

    lost_seconds: float
    """Lost per second."""
    since: float


class HostTotals:
    """Adds up windows. Any thread may hold ``lock`` to read."""

    def __init__(self, most_calls: int, buckets: Buckets = POWERS) -> None:
        """``most_calls``: maximum number of combinations of tenant and operation with series of their own.
        ``buckets``: those of the histograms."""
        self._buckets = buckets
        self.lock = threading.Lock()
        self.window: Window | None = None
        """The newest window; None before the first."""
        self.calls: BoundedSeries[CallLabels] = BoundedSeries(
            BUCKETS_COLUMN + buckets.number, most_calls, CallLabels(OTHER_TENANT, OTHER)
        )
        self.losses: BoundedSeries[LossLabels] = BoundedSeries(
            1, MOST_LOSSES, LossLabels(OTHER_TENANT, OTHER, OTHER_CULPRIT)
        )
        """Column: ns."""
        self.activity: BoundedSeries[ActivityLabels] = BoundedSeries(
            1, MOST_ACTIVITIES, ActivityLabels(DeviceLabels(), OTHER_TENANT)
        )
        """Column: ns."""
        self.figures: BoundedSeries[FigureLabels] = BoundedSeries(
            1, MOST_FIGURES, FigureLabels(DeviceLabels(), OTHER)
        )
        """Column: the counter that the labels name, in its own unit."""
        self.xids: BoundedSeries[XidLabels] = BoundedSeries(1, MOST_XIDS, XidLabels(DeviceLabels(), OTHER))
        self.problems: dict[ProblemLabels, ProblemFigures] = {}
        self.folded_problems = 0
        self.missed: Counter[str] = Counter(dict.fromkeys(LOSSES, 0))
        """By loss: number since ``began``."""
        self.probe_seconds = 0.0
        """CPU time of all probes."""
        self.unobserved_seconds = 0.0
        self.began = 0.0
        """Unix time at which the first window began."""
        self._seen: dict[tuple[Any, ...], float] = {}
        """When windows last had each tenant, GPU and culprit, Unix seconds."""

    def add(self, window: Window) -> None:
        """Adds a window, which must be later than those before."""
        labels = WindowLabels(window)
        with self.lock:
            self._add_calls(window, labels)
            self._add_evidence(window, labels)
            self._add_devices(window, labels)
            self._take_problems(window, labels)
            self.missed.update(window.loss)
            self.probe_seconds += window.coverage.cost_percent / 100.0 * window.seconds
            if self.window is None:
                self.began = window.start
            elif window.start - self.window.end > _GAP_SECONDS:
                self.unobserved_seconds += window.start - self.window.end
            self.window = window
            self._end_series(window, labels)

    def _add_calls(self, window: Window, labels: WindowLabels) -> None:
        """Adds the rows of outermost calls, and those of the time between calls, which have no other figures
        than their time."""
        rows = window.rows
        at = np.array(
            [n for n, key in enumerate(rows.keys) if key.outermost or key.operation == HOST_GAP], np.int64
        )
        if not len(at):
            return
        rows = rows.take(at)
        values = np.zeros((len(rows), BUCKETS_COLUMN + self._buckets.number), np.uint64)
        called = np.array([key.outermost for key in rows.keys], np.bool_)
        for column, counts in enumerate((rows.calls, rows.errors, rows.bytes, rows.total_ns)):
            values[called, column] = counts[called]
        if rows.split_ns is not None:
            values[:, PARTS_COLUMN:BUCKETS_COLUMN] = rows.split_ns
        values[called, BUCKETS_COLUMN:] = self._buckets.counted(rows.histograms)[called]
        named = [CallLabels(labels.who(key.tenant), key.operation) for key in rows.keys]
        self.calls.add(named, values, window.start, TIME_COLUMN)

    def _add_evidence(self, window: Window, labels: WindowLabels) -> None:
        lost: dict[LossLabels, int] = defaultdict(int)
        for charge in window.evidence.charges:
            by = labels.culprit(charge.tenant, charge.culprit_tenant, charge.culprit_process)
            lost[LossLabels(labels.who(charge.tenant), charge.kind, by)] += charge.ns
        active: dict[ActivityLabels, int] = defaultdict(int)
        for one in window.evidence.activity:
            active[ActivityLabels(labels.gpu(one.device), labels.who(one.tenant))] += one.active_ns
        _add(self.losses, lost, window.start)
        _add(self.activity, active, window.start)

    def _add_devices(self, window: Window, labels: WindowLabels) -> None:
        counted: dict[FigureLabels, int] = defaultdict(int)
        xids: dict[XidLabels, int] = defaultdict(int)
        for device in window.devices.devices:
            gpu = labels.gpu(device.label)
            for one in FIGURES:
                value = one.figure.value(device) if one.figure.counts else None
                if value is not None:
                    counted[FigureLabels(gpu, one.figure.name)] += int(value)
            for xid in device.xids:
                xids[XidLabels(gpu, str(xid))] += 1
        _add(self.figures, counted, window.start)
        _add(self.xids, xids, window.start)

    def _take_problems(self, window: Window, labels: WindowLabels) -> None:
        self.problems = {}
        self.folded_problems = 0
        # Severity "info" marks facts, such as that a tenant is GPU-bound.
        problems = (one for one in window.chains if one.open and one.severity != "info")
        for chain in sorted(problems, key=worst_first):
            key = labels.problem(chain)
            if key not in self.problems and len(self.problems) >= MOST_PROBLEMS:
                self.folded_problems += 1
                key = key._replace(who=OTHER_TENANT, by=OTHER_CULPRIT)
            before = self.problems.get(key, ProblemFigures(0.0, chain.since))
            self.problems[key] = ProblemFigures(
                before.lost_seconds + chain.lost_ms_per_s / 1e3, min(before.since, chain.since)
            )

    def _end_series(self, window: Window, labels: WindowLabels) -> None:
        """Ends the series of what no window of the last ``ENDED_SECONDS`` had."""
        tenants = {*window.tenants, *(key.tenant for key in window.rows.keys)}
        who = {labels.who(tenant) for tenant in tenants}
        culprits = {CulpritLabel(one.tenant) for one in who} | {
            CulpritLabel(ITSELF),
            CulpritLabel(LINUX),
            OTHER_CULPRIT,
        }
        charged = {
            labels.culprit(charge.tenant, charge.culprit_tenant, charge.culprit_process)
            for charge in window.evidence.charges
        }
        seen: Iterable[tuple[Any, ...]] = (*who, *culprits, *charged, *labels.gpus.values())
        self._seen.update(dict.fromkeys(seen, window.end))
        ended = {one for one, at in self._seen.items() if window.end - at > ENDED_SECONDS}
        for one in ended:
            del self._seen[one]
        if ended:
            for series in (self.calls, self.losses, self.activity, self.figures, self.xids):
                series.drop(ended)

    def folded(self) -> dict[str, int]:
        """Returns, by kind of series, how many label sets of the newest window have none of their own."""
        return {
            "calls": self.calls.folded,
            "lost_seconds": self.losses.folded,
            "device_active_seconds": self.activity.folded,
            "problem": self.folded_problems,
        }


def _add(series: BoundedSeries[K], counted: dict[K, int], start: float) -> None:
    keys: Sequence[K] = tuple(counted)
    values: NDArray[np.uint64] = np.array([[counted[key]] for key in keys], np.uint64).reshape(len(keys), 1)
    series.add(keys, values, start)
