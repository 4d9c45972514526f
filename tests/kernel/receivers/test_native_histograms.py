"""Tests native histograms with the real Prometheus of Debian 13: PromQL's quantiles of them are those of the
recording."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from stalltop.demo.build import Built
from stalltop.demo.tenants import DemoTenants
from stalltop.formats.metrics.exposition import OPENMETRICS
from stalltop.model.merge.merging import merge
from stalltop.recordings.read.reading import open_file
from tests.kernel.harness import wait_until
from tests.kernel.receivers.prometheus import NATIVE_PROMETHEUS, endpoint, prometheus, served
from tests.kernel.receivers.recorded import (
    LEAST_CALLS,
    check_quantiles,
    grouped,
    recorder,
    scraped_and_recorded,
)

pytestmark = [
    pytest.mark.beside,
    pytest.mark.skipif(not NATIVE_PROMETHEUS.is_file(), reason="Debian 13's Prometheus was not fetched"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can trace"),
    pytest.mark.timeout(600),
]
NAME = "stalltop_call_duration_seconds"
PERCENTS = (50.0, 95.0, 99.0)


def test_quantiles_of_native_histograms_are_those_of_the_recording_within_a_bucket(
    built: Built, tmp_path: Path, tracer_socket: Path
) -> None:
    path = tmp_path / "r.stalltop"
    with recorder(path, tmp_path / "state"):
        wait_until(tracer_socket.exists, what="the socket of the tracer")
        with (
            DemoTenants("trio", built=built),
            endpoint(tmp_path, "--native-histograms") as port,
            prometheus(tmp_path, port, native=True) as server,
        ):
            many = f"histogram_count({NAME}) > {LEAST_CALLS}"
            wait_until(lambda: len(server.query(many)) >= 4, what="calls of four operations")
            moment, end = scraped_and_recorded(server, path)
            counts = server.query(f"histogram_count({NAME})", moment)
            sums = server.query(f"histogram_sum({NAME})", moment)
            quantiles = [
                server.query(f"histogram_quantile({percent / 100}, {NAME})", moment) for percent in PERCENTS
            ]
            assert server.query("stalltop_calls_total", moment) == counts
            assert not server.query(f"{NAME}_bucket", moment)
            rate = f"histogram_quantile(0.99, rate({NAME}[1m]))"
            wait_until(lambda: server.query(rate), what="a rate of histograms")
            text = served(port, OPENMETRICS)
    began = re.search(r"^stalltop_unobserved_seconds_created (\S+)$", text, re.MULTILINE)
    assert began is not None
    with open_file(path) as recorded:
        windows = [
            one for one in recorded.windows() if one.start > float(began[1]) - 1e-3 and one.end < end + 1e-3
        ]
    recording, compared = merge(windows), 0
    for labels, rows in grouped(recording).items():
        series = tuple(sorted({**dict(labels), "job": "stalltop", "instance": f"127.0.0.1:{port}"}.items()))
        assert counts.pop(series) == recording.rows.calls[rows].sum()
        assert sums[series] == pytest.approx(float(recording.rows.total_ns[rows].sum()) / 1e9, rel=1e-12)
        compared += sum(
            check_quantiles(recording, rows, percent, found[series])
            for percent, found in zip(PERCENTS, quantiles, strict=True)
        )
    assert counts == {}
    assert compared >= 9
