"""Exposes the totals of a host through ``prometheus_client``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.samples import Sample

from stalltop.formats.metrics import catalogue
from stalltop.formats.metrics.buckets import EDGES
from stalltop.formats.metrics.catalogue import FIGURES, METRICS, HostMetric
from stalltop.formats.metrics.labels import DeviceLabels, label_values
from stalltop.formats.metrics.totals import (
    BUCKETS_COLUMN,
    BYTES_COLUMN,
    CALLS_COLUMN,
    ERRORS_COLUMN,
    PARTS_COLUMN,
    TIME_COLUMN,
    HostTotals,
)
from stalltop.model.window import SPLITS, Window

_BY_FIGURE: Final = {one.figure.name: one for one in FIGURES}
_MEMORY_USED: Final = _BY_FIGURE["memory_used_bytes"].metric


class HostCollector:
    """A collector of ``prometheus_client``: makes all metrics from ``totals`` at each scrape."""

    def __init__(self, totals: HostTotals, version: str) -> None:
        self._totals = totals
        self._version = version

    def describe(self) -> Iterable[Metric]:
        """Returns all metrics without samples, so that the registry knows their names."""
        return [family(one) for one in METRICS]

    def collect(self) -> Iterable[Metric]:
        """Returns all metrics with their samples. Before the first window, there is only the version."""
        made = MadeFamilies()
        made.add(catalogue.BUILD, {"version": self._version}, 1)
        with self._totals.lock:
            window = self._totals.window
            if window is not None:
                _calls(made, self._totals)
                _losses(made, self._totals)
                _devices(made, self._totals, window)
                _coverage(made, self._totals, window)
        return made


def family(metric: HostMetric) -> Metric:
    """Returns ``metric`` without samples."""
    return Metric(metric.name, f"{metric.about}.", metric.kind, metric.unit)


class MadeFamilies:
    """Metrics with their samples, in the order of the catalogue; metrics without samples are left out."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def add(self, metric: HostMetric, labels: dict[str, str], value: float, created: float = 0.0) -> None:
        """Adds a sample of a gauge, an info or, with the Unix time at which it was 0, a counter."""
        samples = self.of(metric).samples
        samples.append(Sample(metric.series, labels, value))
        if metric.kind == "counter":
            samples.append(Sample(f"{metric.name}_created", labels, created))

    def of(self, metric: HostMetric) -> Metric:
        """Returns the family of ``metric``, to add samples to it."""
        found = self._families.get(metric.name)
        if found is None:
            found = self._families[metric.name] = family(metric)
        return found

    def __iter__(self) -> Iterator[Metric]:
        return (self._families[one.name] for one in METRICS if one.name in self._families)


def _calls(made: MadeFamilies, totals: HostTotals) -> None:
    durations = made.of(catalogue.CALL_DURATION)
    for series in totals.calls:
        labels, values = label_values(series.labels), series.values.tolist()
        if values[CALLS_COLUMN]:
            _histogram(durations, labels, values, series.created)
            made.add(catalogue.CALLS, labels, values[CALLS_COLUMN], series.created)
            made.add(catalogue.ERRORS, labels, values[ERRORS_COLUMN], series.created)
            if values[BYTES_COLUMN]:
                made.add(catalogue.BYTES, labels, values[BYTES_COLUMN], series.created)
        for part, ns in zip(SPLITS, values[PARTS_COLUMN:BUCKETS_COLUMN], strict=True):
            if ns:
                made.add(catalogue.TIME, {**labels, "part": part}, ns / 1e9, series.created)


def _histogram(durations: Metric, labels: dict[str, str], values: list[int], created: float) -> None:
    name, samples, below = durations.name, durations.samples, 0
    for edge, count in zip(EDGES, values[BUCKETS_COLUMN:], strict=True):
        below += count
        samples.append(Sample(f"{name}_bucket", {**labels, "le": edge}, below))
    samples.append(Sample(f"{name}_count", labels, below))
    samples.append(Sample(f"{name}_sum", labels, values[TIME_COLUMN] / 1e9))
    samples.append(Sample(f"{name}_created", labels, created))


def _losses(made: MadeFamilies, totals: HostTotals) -> None:
    for lost in totals.losses:
        made.add(catalogue.LOST, label_values(lost.labels), int(lost.values[0]) / 1e9, lost.created)
    for problem, figures in totals.problems.items():
        labels = label_values(problem)
        made.add(catalogue.PROBLEM, labels, figures.lost_seconds)
        made.add(catalogue.PROBLEM_START, labels, figures.since)


def _devices(made: MadeFamilies, totals: HostTotals, window: Window) -> None:
    """Adds the gauges of the newest window, and the totals of what counts."""
    for device in window.devices.devices:
        gpu = DeviceLabels(device.uuid, str(device.index))
        known = {"model": device.name, "driver": window.devices.driver}
        made.add(catalogue.DEVICE, label_values(gpu) | {name: one for name, one in known.items() if one}, 1)
        for one in FIGURES:
            value = None if one.figure.counts else one.figure.value(device)
            if value is not None:
                made.add(one.metric, label_values(gpu), value * one.scale)
        for part in device.instances:
            if part.gpu_instance is not None and part.memory_used_bytes is not None:
                labels = label_values(gpu._replace(GPU_I_ID=str(part.gpu_instance)))
                made.add(_MEMORY_USED, labels, part.memory_used_bytes)
    for counted in totals.figures:
        found = _BY_FIGURE.get(counted.labels.figure)
        if found is not None:
            value = int(counted.values[0]) * found.scale
            made.add(found.metric, label_values(counted.labels.where), value, counted.created)
    for active in totals.activity:
        seconds = int(active.values[0]) / 1e9
        made.add(catalogue.DEVICE_ACTIVE, label_values(active.labels), seconds, active.created)
    for xid in totals.xids:
        made.add(catalogue.XIDS, label_values(xid.labels), int(xid.values[0]), xid.created)


def _coverage(made: MadeFamilies, totals: HostTotals, window: Window) -> None:
    coverage, began = window.coverage, totals.began
    for reason, count in totals.missed.items():
        made.add(catalogue.MISSED, {"reason": reason}, count, began)
    made.add(catalogue.UNOBSERVED, {}, totals.unobserved_seconds, began)
    made.add(catalogue.WINDOW_END, {}, window.end)
    made.add(catalogue.TRACING, {}, not coverage.tracing)
    made.add(catalogue.PROBES, {}, coverage.attached)
    made.add(catalogue.PROBE_CPU, {}, totals.probe_seconds, began)
    made.add(
        catalogue.REDUCED, {}, len({one.symbol for library in coverage.libraries for one in library.reduced})
    )
    made.add(catalogue.UNTRACED, {}, sum(one.untraced for one in coverage.missing))
    for metric, count in totals.folded().items():
        made.add(catalogue.FOLDED, {"metric": metric}, count)
