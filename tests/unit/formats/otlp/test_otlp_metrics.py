"""Tests the OTLP requests with metrics, read by the official classes of the protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from stalltop.formats.metrics.catalogue import METRICS
from stalltop.formats.metrics.exponential import EXPONENTIAL
from stalltop.formats.metrics.totals import ENDED_SECONDS, HostTotals
from stalltop.formats.otlp.metrics import OtlpMetrics, otlp_name
from stalltop.model.histograms.hdr import HIGHEST_NS
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, window
from tests.windows.full import full_window
from tests.windows.hostile import hostile_window


class Sent:
    """Requests from windows, one after another."""

    def __init__(self, **given: str) -> None:
        self._totals = HostTotals(100, EXPONENTIAL)
        self._metrics = OtlpMetrics(self._totals, "1.2.3", {k.replace("_", "."): v for k, v in given.items()})

    def after(self, one: Window) -> ExportMetricsServiceRequest:
        self._totals.add(one)
        found: ExportMetricsServiceRequest = ExportMetricsServiceRequest.FromString(self._metrics.request())
        return found


def named(pairs: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in pairs}


def points(
    request: ExportMetricsServiceRequest, name: str
) -> Iterator[tuple[dict[str, str], dict[str, str], Any]]:
    """Yields resource, attributes and point of each series of a metric."""
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                if metric.name == name:
                    data = getattr(metric, str(metric.WhichOneof("data")))
                    for point in data.data_points:
                        yield named(resource.resource.attributes), named(point.attributes), point


def test_there_is_nothing_before_the_first_window() -> None:
    assert OtlpMetrics(HostTotals(1, EXPONENTIAL), "1", {}).request() == b""


def test_resources_have_the_attributes_of_the_conventions() -> None:
    request = Sent(k8s_node_name="node-3").after(full_window())
    host = {
        "service.name": "stalltop",
        "service.instance.id": full_window().host,
        "service.version": "1.2.3",
        "host.name": full_window().host,
        "os.type": "linux",
        "k8s.node.name": "node-3",
    }
    found = [named(one.resource.attributes) for one in request.resource_metrics]
    assert all(host.items() <= one.items() for one in found)
    assert host in found
    gpus = [one for one in found if one.get("hw.type") == "gpu"]
    (device,) = full_window().devices.devices
    assert [one["hw.id"] for one in gpus] == [device.uuid]
    assert gpus[0]["hw.model"] == device.name
    own = [{k: v for k, v in one.items() if k not in host} for one in found]
    assert {"k8s.namespace.name", "k8s.pod.name", "k8s.container.name"} in [set(one) for one in own]
    assert len({json.dumps(one, sort_keys=True) for one in found}) == len(found)


def test_a_histogram_has_exact_sums_and_its_calls_in_their_buckets() -> None:
    durations = [0, 1, 1_000_000, 1_000_000, HIGHEST_NS]
    request = Sent().after(window([Calls(key(), durations)], start=1_000.0))
    ((resource, labels, point),) = points(request, "stalltop.call.duration")
    assert resource["container.name"] == labels["container"] == labels["tenant"] == "train"
    assert (point.count, point.zero_count, point.scale) == (5, 1, 5)
    assert point.sum == sum(durations) / 1e9
    assert point.start_time_unix_nano == 1_000_000_000_000
    assert point.time_unix_nano == round(window(start=1_000.0).end * 1e9)
    counted = {
        point.positive.offset + at: count for at, count in enumerate(point.positive.bucket_counts) if count
    }
    assert sum(counted.values()) == 4
    (millisecond,) = [number for number, count in counted.items() if count == 2]
    assert 2 ** (millisecond / 32) < 1e-3 <= 2 ** ((millisecond + 1) / 32)


def test_counters_are_cumulative_and_begin_with_the_first_window() -> None:
    sent = Sent()
    sent.after(window([Calls(key(), [5, 5])], start=1_000.0))
    request = sent.after(window([Calls(key(), [5])], start=1_001.0))
    ((_, _, point),) = points(request, "stalltop.calls")
    assert (point.as_int, point.start_time_unix_nano) == (3, 1_000_000_000_000)
    metrics = [m for r in request.resource_metrics for s in r.scope_metrics for m in s.metrics]
    for metric in metrics:
        if metric.WhichOneof("data") == "sum":
            assert metric.sum.is_monotonic
            assert metric.sum.aggregation_temporality == 2


def test_a_series_that_ends_is_marked_once() -> None:
    sent = Sent()
    first = window([Calls(key(), [5]), Calls(key(tenant="cri:bb"), [7])], start=1_000.0)
    later = window([Calls(key(tenant="cri:bb"), [7])], start=1_001.0 + ENDED_SECONDS)
    later = replace(later, tenants={"cri:bb": later.tenants["cri:bb"]})
    sent.after(first)
    ended = {
        labels["tenant"]: point.flags
        for _, labels, point in points(sent.after(later), "stalltop.call.duration")
    }
    assert ended == {"train": 1, "serve": 0}
    again = replace(later, start=later.end)
    assert [labels["tenant"] for _, labels, _ in points(sent.after(again), "stalltop.calls")] == ["serve"]


@pytest.mark.parametrize("make", [full_window, hostile_window])
def test_every_series_has_its_labels_and_no_other(make: Any) -> None:
    request = Sent().after(make())
    known = {otlp_name(one)[0]: one for one in METRICS}
    seen = set()
    for resource in MessageToDict(request)["resourceMetrics"]:
        for metric in resource["scopeMetrics"][0]["metrics"]:
            catalogued = known[metric["name"]]
            assert metric.get("unit", "") == otlp_name(catalogued)[1]
            (data,) = (metric[kind] for kind in ("sum", "gauge", "exponentialHistogram") if kind in metric)
            for point in data["dataPoints"]:
                labels = {one["key"]: one["value"]["stringValue"] for one in point.get("attributes", ())}
                assert set(labels) <= set(catalogued.labels)
                series = metric["name"], *sorted(labels.items())
                assert series not in seen
                seen.add(series)
    assert len(known) == len(METRICS)
