"""The totals of a host as an OTLP request. Names and units are such that Prometheus makes the names of the
catalogue of them again, and the attributes of points are the labels of the catalogue: a query works for
scraped and for sent series."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK,
    ExponentialHistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from stalltop.formats.metrics.catalogue import HostMetric
from stalltop.formats.metrics.exponential import OFFSET, SCALE, ZERO_COLUMN
from stalltop.formats.metrics.points import pass_on
from stalltop.formats.metrics.totals import HostTotals
from stalltop.formats.otlp.resources import gpu_resource, host_resource, key_values, labelled_resource

_UNITS: Final = {
    "_bytes_per_second": "By/s",
    "_bytes": "By",
    "_celsius": "Cel",
    "_hertz": "Hz",
    "_joules": "J",
    "_ratio": "1",
    "_seconds": "s",
    "_watts": "W",
}
"""By suffix of a name: the unit (UCUM) that stands in its place."""
_Labels = tuple[tuple[str, str], ...]
_Series = tuple[HostMetric, _Labels]


def otlp_name(metric: HostMetric) -> tuple[str, str]:
    """Returns name and unit of a metric in OTLP."""
    name = metric.series if metric.kind == "info" else metric.name
    suffix, unit = next((one for one in _UNITS.items() if name.endswith(one[0])), ("", ""))
    return name.removesuffix(suffix).replace("_", "."), unit


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


class OtlpMetrics:
    """Makes requests from totals with the buckets ``EXPONENTIAL``. Remembers which series the request before
    had: one that has ended is marked, so that receivers do not go on with its last value."""

    def __init__(self, totals: HostTotals, version: str, given: Mapping[str, str]) -> None:
        """``given``: further attributes of the host."""
        self._totals = totals
        self._version = version
        self._given = given
        self._before: set[_Series] = set()

    def request(self) -> bytes:
        """Returns the present totals; b'' before the first window."""
        with self._totals.lock:
            window = self._totals.window
        if window is None:
            return b""
        host = host_resource(window.host, self._version, self._given)
        gpus = {one.uuid: gpu_resource(one, window.devices.driver) for one in window.devices.devices}
        made = _MetricsRequest(host, gpus, _ns(window.end))
        pass_on(self._totals, self._version, made)
        for metric, labels in self._before - made.series:
            made.end(metric, labels)
        self._before = made.series
        return bytes(made.message.SerializeToString())


class _MetricsRequest:
    """Takes series (``MetricSink``)."""

    def __init__(self, host: Mapping[str, str], gpus: Mapping[str, Mapping[str, str]], time_ns: int) -> None:
        self.message = ExportMetricsServiceRequest()
        self.series: set[_Series] = set()
        self._host = host
        self._gpus = gpus
        self._time_ns = time_ns
        self._scopes: dict[_Labels, ScopeMetrics] = {}
        self._metrics: dict[tuple[_Labels, str], Metric] = {}
        self._made: dict[_Labels, tuple[_Labels, list[KeyValue]]] = {}

    def add(self, metric: HostMetric, labels: Mapping[str, str], value: float, created: float = 0.0) -> None:
        """Adds the value of a gauge, an info or, with the Unix time at which it was 0, a counter."""
        series = tuple(labels.items())
        self.series.add((metric, series))
        point = self._number(metric, series)
        point.start_time_unix_nano = _ns(created)
        if isinstance(value, int):
            point.as_int = value
        else:
            point.as_double = value

    def add_histogram(
        self,
        metric: HostMetric,
        labels: Mapping[str, str],
        counts: NDArray[np.uint64],
        seconds: float,
        created: float,
    ) -> None:
        """Adds a histogram: the calls of each bucket, and the sum of their durations."""
        series = tuple(labels.items())
        self.series.add((metric, series))
        point = self._histogram(metric, series)
        point.start_time_unix_nano = _ns(created)
        point.count, point.sum = int(counts.sum()), seconds
        point.zero_count = int(counts[ZERO_COLUMN])
        used = np.flatnonzero(counts[ZERO_COLUMN + 1 :])
        if len(used):
            first, last = int(used[0]), int(used[-1]) + 1
            point.positive.offset = OFFSET + first
            point.positive.bucket_counts.extend(counts[ZERO_COLUMN + 1 :][first:last].tolist())

    def end(self, metric: HostMetric, labels: _Labels) -> None:
        """Marks the series as ended."""
        point = (self._histogram if metric.kind == "histogram" else self._number)(metric, labels)
        point.flags = DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK

    def _number(self, metric: HostMetric, labels: _Labels) -> NumberDataPoint:
        made, attributes = self._metric(metric, labels)
        if metric.kind == "counter":
            made.sum.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
            made.sum.is_monotonic = True
            points = made.sum.data_points
        else:
            points = made.gauge.data_points
        point: NumberDataPoint = points.add(attributes=attributes, time_unix_nano=self._time_ns)
        return point

    def _histogram(self, metric: HostMetric, labels: _Labels) -> ExponentialHistogramDataPoint:
        made, attributes = self._metric(metric, labels)
        made.exponential_histogram.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
        points = made.exponential_histogram.data_points
        point: ExponentialHistogramDataPoint = points.add(
            attributes=attributes, time_unix_nano=self._time_ns, scale=SCALE
        )
        return point

    def _metric(self, metric: HostMetric, labels: _Labels) -> tuple[Metric, list[KeyValue]]:
        found = self._made.get(labels)
        if found is None:
            found = self._made[labels] = self._resource(dict(labels)), list(key_values(dict(labels)))
        resource, attributes = found
        made = self._metrics.get((resource, metric.name))
        if made is None:
            name, unit = otlp_name(metric)
            made = self._scope(resource).metrics.add(name=name, description=f"{metric.about}.", unit=unit)
            self._metrics[resource, metric.name] = made
        return made, attributes

    def _resource(self, labels: Mapping[str, str]) -> _Labels:
        own = labelled_resource(labels) if "tenant" in labels else self._gpus.get(labels.get("UUID", ""), {})
        return tuple(own.items())

    def _scope(self, own: _Labels) -> ScopeMetrics:
        found = self._scopes.get(own)
        if found is None:
            attributes: Iterable[KeyValue] = key_values({**self._host, **dict(own)})
            resource: ResourceMetrics = self.message.resource_metrics.add(
                resource=Resource(attributes=attributes)
            )
            found = self._scopes[own] = resource.scope_metrics.add(
                scope=InstrumentationScope(name="stalltop")
            )
        return found
