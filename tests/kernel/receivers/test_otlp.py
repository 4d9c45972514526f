"""Tests ``stalltop metrics --otlp`` with the real VictoriaMetrics of Debian, which keeps the buckets of
exponential histograms as they are."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stalltop.demo.simulated.windows import SimulatedSource
from stalltop.formats.metrics.catalogue import METRICS
from stalltop.formats.metrics.labels import TenantLabels
from stalltop.formats.metrics.totals import ENDED_SECONDS
from stalltop.model.merge.merging import merge
from stalltop.model.window import Window
from stalltop.serving.otlp import exporter as exporting
from tests.kernel.harness import wait_until
from tests.kernel.receivers.prometheus import Prometheus, endpoint, free_port, served
from tests.kernel.receivers.published import PublishedWindows
from tests.kernel.receivers.recorded import check_quantiles, grouped
from tests.kernel.receivers.sending import SECONDS, sending
from tests.kernel.receivers.victoria import FETCHED, otlp, victoria
from tests.windows.by_hand import Calls, key, window
from tests.windows.full import full_window

pytestmark = [
    pytest.mark.beside,
    pytest.mark.skipif(not FETCHED, reason="VictoriaMetrics was not fetched"),
    pytest.mark.timeout(600),
]
Labels = tuple[tuple[str, str], ...]


def simulated(windows: int, began: float) -> list[Window]:
    """Returns windows of simulated tenants, ten seconds from one to the next: so few that no series ends."""
    now = began

    def clock() -> float:
        return now

    source, found = SimulatedSource(clock=clock), []
    for _ in range(windows):
        now += 10.0
        found.append(source.read())
    source.close()
    return found


def test_sent_series_have_the_names_labels_and_values_of_scraped_ones(
    tracer: PublishedWindows, tmp_path: Path
) -> None:
    own = free_port()
    one = replace(full_window(), start=time.time() - full_window().seconds)
    arguments = ("--otlp", otlp(own), "--otlp-interval", "1")
    with endpoint(tmp_path, *arguments) as port, victoria(tmp_path, own) as server:
        tracer.publish(one)

        def sent() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = server.get(
                "query", query='{__name__=~"stalltop_.*",__name__!~".*_bucket"}', time=repr(one.end + 1)
            )["result"]
            return found

        def scraped() -> dict[tuple[str, Labels], float]:
            return {
                (sample.name, tuple(sorted(sample.labels.items()))): sample.value
                for family in text_string_to_metric_families(served(port))
                for sample in family.samples
                if not sample.name.startswith("process_") and not sample.name.endswith("_bucket")
            }

        wait_until(lambda: len(scraped()) > 2, what="the window")
        wait_until(lambda: len(sent()) == len(scraped()), what="all series")
        received, exposed = sent(), scraped()
    known = {label for metric in METRICS for label in metric.labels}
    assert {
        (
            labels.pop("__name__"),
            tuple(sorted((name, value) for name, value in labels.items() if name in known)),
        ): float(value)
        for labels, (_, value) in ((each["metric"], each["value"]) for each in received)
    } == pytest.approx(exposed)
    resources = [each["metric"] for each in received]
    assert all(labels["host_name"] == labels["service_instance_id"] == one.host for labels in resources)
    assert any(labels.get("k8s_pod_name") == "llm-0" for labels in resources)
    assert any(labels.get("hw_type") == "gpu" for labels in resources)


def quantile(server: Prometheus, percent: float, at: float) -> dict[Labels, float]:
    """Returns a quantile of each series by the labels of the catalogue."""
    by = ", ".join((*TenantLabels._fields, "operation"))
    inner = f"sum by ({by}, vmrange) (stalltop_call_duration_seconds_bucket)"
    return server.query(f"histogram_quantile({percent / 100}, {inner})", at + 1)


def test_quantiles_are_those_of_the_recording_within_the_width_of_a_bucket(tmp_path: Path) -> None:
    own, percents = free_port(), (50.0, 95.0, 99.0)
    windows = simulated(4, time.time() - 40.0)
    with victoria(tmp_path, own) as server:
        with sending(otlp(own), tmp_path / "queue") as output:
            for one in windows:
                output.take(one)
        wait_until(
            lambda: server.value("stalltop_window_end_timestamp_seconds", windows[-1].end), what="the windows"
        )
        quantiles = [quantile(server, percent, windows[-1].end) for percent in percents]
    recording = merge(windows)
    groups = {tuple(sorted(labels)): rows for labels, rows in grouped(recording).items()}
    assert {len(one) for one in quantiles} == {len(groups)}
    compared = [
        check_quantiles(recording, rows, percent, found[labels])
        for labels, rows in groups.items()
        for percent, found in zip(percents, quantiles, strict=True)
    ]
    assert sum(compared) >= 30


def test_nothing_is_lost_over_a_receiver_that_is_away_for_ten_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "LONGEST_PAUSE_SECONDS", 0.5)
    own, now = free_port(), time.time()
    starts = [now - SECONDS * number for number in range(24, 0, -1)]
    windows = [window([Calls(key(), [1_000] * 10)], start=start, seconds=SECONDS - 1) for start in starts]
    with sending(otlp(own), tmp_path / "queue") as output:
        for one in windows:
            output.take(one)
        waiting = len(list((tmp_path / "queue" / "metrics").iterdir()))
        with victoria(tmp_path, own) as server:
            name, last = "stalltop_window_end_timestamp_seconds", windows[-1].end
            wait_until(lambda: (server.value(name, last + 1) or 0) > last - 1, what="the last of the windows")
            (values,) = server.get("query", query=f"{name}[15m]", time=repr(last + 1))["result"]
            calls = server.value("sum(stalltop_calls_total)", last + 1)
    assert waiting == len(windows)
    assert [float(value) for _, value in values["values"]] == pytest.approx([one.end for one in windows])
    assert calls == 10 * len(windows)


def test_series_of_an_ended_tenant_are_stale_at_once(tmp_path: Path) -> None:
    own, now = free_port(), time.time()
    first = window([Calls(key(), [5]), Calls(key(tenant="cri:bb"), [7])], start=now - 200.0)
    later = window([Calls(key(tenant="cri:bb"), [7])], start=now - 200.0 + ENDED_SECONDS + 2)
    later = replace(later, tenants={"cri:bb": later.tenants["cri:bb"]})
    with victoria(tmp_path, own) as server:
        with sending(otlp(own), tmp_path / "queue") as output:
            output.take(first)
            output.take(later)
        count = 'stalltop_calls_total{tenant="%s"}'
        wait_until(lambda: server.value(count % "serve", later.end + 1) == 2, what="both windows")
        assert server.value(count % "train", later.end - 1) == 1
        # VictoriaMetrics passes over the mark at histograms.
        assert server.query('{tenant="train",__name__=~".*_total"}', later.end + 1) == {}
