"""Walks through the totals of a host and passes on every series, whatever the format is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from stalltop.formats.metrics import catalogue
from stalltop.formats.metrics.catalogue import FIGURES, HostMetric
from stalltop.formats.metrics.labels import DeviceLabels, WindowLabels, label_values
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


class MetricSink(Protocol):
    """Takes series and writes them in a format."""

    def add(self, metric: HostMetric, labels: Mapping[str, str], value: float, created: float = 0.0) -> None:
        """Takes the value of a gauge, an info or, with the Unix time at which it was 0, a counter."""

    def add_histogram(
        self,
        metric: HostMetric,
        labels: Mapping[str, str],
        counts: NDArray[np.uint64],
        seconds: float,
        created: float,
    ) -> None:
        """Takes a histogram: the calls of each bucket, and the sum of their durations."""


def pass_on(totals: HostTotals, version: str, sink: MetricSink) -> None:
    """Passes all series of ``totals`` to ``sink``. Before the first window, there is only the version."""
    sink.add(catalogue.BUILD, {"version": version}, 1)
    with totals.lock:
        window = totals.window
        if window is not None:
            _calls(sink, totals)
            _losses(sink, totals)
            for job in WindowLabels(window).jobs():
                sink.add(catalogue.JOB, label_values(job), 1)
            _devices(sink, totals, window)
            _coverage(sink, totals, window)


def _calls(sink: MetricSink, totals: HostTotals) -> None:
    for series in totals.calls:
        labels, values = label_values(series.labels), series.values[:BUCKETS_COLUMN].tolist()
        if values[CALLS_COLUMN]:
            seconds, counts = values[TIME_COLUMN] / 1e9, series.values[BUCKETS_COLUMN:]
            sink.add_histogram(catalogue.CALL_DURATION, labels, counts, seconds, series.created)
            sink.add(catalogue.CALLS, labels, values[CALLS_COLUMN], series.created)
            sink.add(catalogue.ERRORS, labels, values[ERRORS_COLUMN], series.created)
            if values[BYTES_COLUMN]:
                sink.add(catalogue.BYTES, labels, values[BYTES_COLUMN], series.created)
        for part, ns in zip(SPLITS, values[PARTS_COLUMN:], strict=True):
            if ns:
                sink.add(catalogue.TIME, {**labels, "part": part}, ns / 1e9, series.created)


def _losses(sink: MetricSink, totals: HostTotals) -> None:
    for lost in totals.losses:
        sink.add(catalogue.LOST, label_values(lost.labels), int(lost.values[0]) / 1e9, lost.created)
    for problem, figures in totals.problems.items():
        labels = label_values(problem)
        sink.add(catalogue.PROBLEM, labels, figures.lost_seconds)
        sink.add(catalogue.PROBLEM_START, labels, figures.since)


def _devices(sink: MetricSink, totals: HostTotals, window: Window) -> None:
    """Adds the gauges of the newest window, and the totals of what counts."""
    for device in window.devices.devices:
        gpu = DeviceLabels(device.uuid, str(device.index))
        known = {"model": device.name, "driver": window.devices.driver}
        sink.add(catalogue.DEVICE, label_values(gpu) | {name: one for name, one in known.items() if one}, 1)
        for one in FIGURES:
            value = None if one.figure.counts else one.figure.value(device)
            if value is not None:
                sink.add(one.metric, label_values(gpu), value * one.scale)
        for part in device.instances:
            if part.gpu_instance is not None and part.memory_used_bytes is not None:
                labels = label_values(gpu._replace(GPU_I_ID=str(part.gpu_instance)))
                sink.add(_MEMORY_USED, labels, part.memory_used_bytes)
    for counted in totals.figures:
        found = _BY_FIGURE.get(counted.labels.figure)
        if found is not None:
            value = int(counted.values[0]) * found.scale
            sink.add(found.metric, label_values(counted.labels.where), value, counted.created)
    for active in totals.activity:
        seconds = int(active.values[0]) / 1e9
        sink.add(catalogue.DEVICE_ACTIVE, label_values(active.labels), seconds, active.created)
    for xid in totals.xids:
        sink.add(catalogue.XIDS, label_values(xid.labels), int(xid.values[0]), xid.created)


def _coverage(sink: MetricSink, totals: HostTotals, window: Window) -> None:
    coverage, began = window.coverage, totals.began
    for reason, count in totals.missed.items():
        sink.add(catalogue.MISSED, {"reason": reason}, count, began)
    sink.add(catalogue.UNOBSERVED, {}, totals.unobserved_seconds, began)
    sink.add(catalogue.WINDOW_END, {}, window.end)
    sink.add(catalogue.TRACING, {}, int(not coverage.tracing))
    sink.add(catalogue.PROBES, {}, coverage.attached)
    sink.add(catalogue.PROBE_CPU, {}, totals.probe_seconds, began)
    sink.add(
        catalogue.REDUCED, {}, len({one.symbol for library in coverage.libraries for one in library.reduced})
    )
    sink.add(catalogue.UNTRACED, {}, sum(one.untraced for one in coverage.missing))
    for metric, count in totals.folded().items():
        sink.add(catalogue.FOLDED, {"metric": metric}, count)
