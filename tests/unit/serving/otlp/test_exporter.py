"""Tests that requests reach a receiver in order, and that none is lost while it is away."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from stalltop.formats.otlp.answers import refused
from stalltop.serving.otlp import exporter as module
from stalltop.serving.otlp.exporter import OtlpExporter
from stalltop.serving.otlp.output import OtlpOutput
from tests.unit.serving.notify.problems import problem, with_problems
from tests.unit.serving.otlp.collector import Collected, collector


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 0.05)


@pytest.fixture
def web() -> Iterator[Collected]:
    with collector() as found:
        yield found


class Running:
    """An exporter, and what it told."""

    def __init__(self, url: str, folder: Path) -> None:
        self.told: queue.Queue[str] = queue.Queue()
        self.exporter = OtlpExporter(url, folder, {"authorization": "Bearer t"}, refused, self.told.put)
        self.exporter.start()

    def said(self) -> str:
        return self.told.get(timeout=100)


def metrics(name: str) -> bytes:
    made = ExportMetricsServiceRequest()
    made.resource_metrics.add().scope_metrics.add().metrics.add(name=name)
    return bytes(made.SerializeToString())


def names(got: list[tuple[str, object]]) -> list[str]:
    return [
        message.resource_metrics[0].scope_metrics[0].metrics[0].name
        for _, message in got
        if isinstance(message, ExportMetricsServiceRequest)
    ]


def test_requests_are_sent_with_the_given_headers(web: Collected, tmp_path: Path) -> None:
    running = Running(web.url, tmp_path)
    running.exporter.put("metrics", metrics("a"))
    running.exporter.put("metrics", b"")
    assert names(web.wait(1)) == ["a"]
    running.exporter.put("logs", ExportLogsServiceRequest().SerializeToString() or b"\n\0")
    assert web.wait(2)[1][0] == "/v1/logs"
    assert web.sent_headers["Authorization"] == "Bearer t"
    running.exporter.stop(100)
    assert running.exporter.waiting == 0
    assert running.told.empty()


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_receiver_gets_everything_later_in_order(web: Collected, tmp_path: Path, status: int) -> None:
    web.status, web.headers = status, {"Retry-After": "0"}
    running = Running(web.url, tmp_path)
    for name in "abc":
        running.exporter.put("metrics", metrics(name))
    web.wait_for_tries(3)
    assert "trying again" in running.said()
    web.status = 200
    assert names(web.wait(3)) == ["a", "b", "c"]
    assert running.said() == "OTLP metrics: works again"
    running.exporter.stop(100)


def test_nothing_is_lost_over_a_receiver_that_is_away_and_a_restart(tmp_path: Path) -> None:
    with collector() as gone:
        port = gone.port
    first = Running(f"http://127.0.0.1:{port}", tmp_path)
    first.exporter.put("metrics", metrics("a"))
    assert "cannot reach" in first.said()
    first.exporter.put("metrics", metrics("b"))
    first.exporter.stop(0.5)
    assert first.exporter.waiting == 2
    with collector(port) as back:
        second = Running(f"http://127.0.0.1:{port}", tmp_path)
        second.exporter.put("metrics", metrics("c"))
        assert names(back.wait(3)) == ["a", "b", "c"]
        second.exporter.stop(100)


@pytest.mark.parametrize("status", [400, 404, 500])
def test_what_a_receiver_refuses_for_good_is_told_and_not_repeated(
    web: Collected, tmp_path: Path, status: int
) -> None:
    web.status = status
    running = Running(web.url, tmp_path)
    running.exporter.put("metrics", metrics("bad"))
    assert f"answered {status}" in running.said()
    web.status = 200
    running.exporter.put("metrics", metrics("good"))
    assert names(web.wait(1)) == ["good"]
    running.exporter.stop(100)
    assert web.tries == 2


def test_parts_that_are_refused_are_told(web: Collected, tmp_path: Path) -> None:
    part = ExportMetricsPartialSuccess(rejected_data_points=3, error_message="too\nold")
    web.answers["/v1/metrics"] = ExportMetricsServiceResponse(partial_success=part)
    running = Running(web.url, tmp_path)
    running.exporter.put("metrics", metrics("a"))
    assert running.said() == "OTLP metrics: 3 points refused: too old"
    running.exporter.stop(100)


def test_a_receiver_of_metrics_only_gets_metrics(web: Collected, tmp_path: Path) -> None:
    running = Running(web.url, tmp_path)
    web.status = 404
    running.exporter.put("logs", b"\n\0")
    assert "OTLP logs" in running.said()
    web.status = 200
    running.exporter.put("metrics", metrics("a"))
    assert names(web.wait(1)) == ["a"]
    running.exporter.stop(100)


def test_totals_are_sent_at_intervals_and_problems_at_once(web: Collected, tmp_path: Path) -> None:
    running = Running(web.url, tmp_path)
    output = OtlpOutput(running.exporter, "1", {}, series=10, seconds=30.0)
    for second in range(61):
        chains = (problem(),) if second >= 10 else ()
        output.take(with_problems(*chains, end=1_000.0 + second))
    output.finish()
    running.exporter.stop(100)
    ends = [
        message.resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points[0].time_unix_nano / 1e9
        for _, message in web.got
        if isinstance(message, ExportMetricsServiceRequest)
    ]
    assert ends == [1_000.0, 1_030.0, 1_060.0]
    (log,) = [message for path, message in web.got if path == "/v1/logs"]
    assert log.resource_logs[0].scope_logs[0].log_records[0].time_unix_nano == 1_010 * 10**9
