"""Tests ``stalltop metrics`` with the real Prometheus of Debian: what it scrapes is what a recording has."""

from __future__ import annotations

import http.client
import http.server
import os
import re
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stalltop.demo.build import Built
from stalltop.demo.tenants import DemoTenants
from stalltop.formats.metrics.buckets import EDGES_NS
from stalltop.formats.metrics.catalogue import METRICS
from stalltop.formats.metrics.totals import ENDED_SECONDS
from stalltop.model.merge.merging import merge
from stalltop.model.window import Window
from stalltop.recordings.read.reading import open_file
from tests.kernel.harness import wait_until
from tests.kernel.receivers.prometheus import (
    FETCHED,
    PROMTOOL,
    ROOT,
    Prometheus,
    endpoint,
    prometheus,
    served,
)
from tests.kernel.receivers.published import PublishedWindows
from tests.kernel.receivers.recorded import LEAST_CALLS, grouped, recorder, scraped_and_recorded
from tests.windows.by_hand import Calls, key, window
from tests.windows.full import full_window

pytestmark = [
    pytest.mark.beside,
    pytest.mark.skipif(not FETCHED, reason="Prometheus was not fetched"),
    pytest.mark.timeout(600),
]
DOCUMENT = (ROOT / "docs" / "metrics.md").read_text()


def promtool(*arguments: str, stdin: str = "") -> tuple[int, str]:
    done = subprocess.run(
        [PROMTOOL, *arguments], input=stdin, capture_output=True, text=True, timeout=100, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_promtool_finds_nothing_to_improve(tracer: PublishedWindows, tmp_path: Path) -> None:
    with endpoint(tmp_path) as port:
        tracer.publish(full_window())
        text = wait_until(lambda: text if "stalltop_calls" in (text := served(port)) else "")
    assert len(set(re.findall(r"^# TYPE (stalltop_\w+)", text, re.MULTILINE))) > len(METRICS) / 2
    assert promtool("check", "metrics", stdin=text) == (0, "")


def test_promtool_accepts_the_sample_configuration(tmp_path: Path) -> None:
    (sample,) = re.findall(r"^```yaml\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    path = tmp_path / "prometheus.yml"
    path.write_text(sample)
    code, said = promtool("check", "config", "--syntax-only", str(path))
    assert code == 0, said


def test_every_documented_query_is_valid_and_names_existing_metrics(
    tracer: PublishedWindows, tmp_path: Path
) -> None:
    queries = re.findall(r"^\| [^|]+ \| `([^`]*stalltop_[^`]*)` \|$", DOCUMENT, re.MULTILINE)
    assert len(queries) >= 6
    with endpoint(tmp_path) as port, prometheus(tmp_path, port) as server:
        tracer.publish(full_window())
        wait_until(lambda: server.value("stalltop_window_end_timestamp_seconds"), what="a scrape")
        known = set(server.get("label/__name__/values"))
        for query in queries:
            expression = query.replace("\\|", "|")
            server.query(expression)
            assert set(re.findall(r"stalltop_\w+", expression)) <= known


DCGM = """\
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-5f2c",device="nvidia0",modelName="H100"} 50
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-5f2c",device="nvidia0",GPU_I_PROFILE="1g.10gb",GPU_I_ID="9"} 25
"""
"""What dcgm-exporter serves for the GPU of ``full_window`` and its MIG device."""


def test_series_of_gpus_join_with_those_of_dcgm_exporter(tracer: PublishedWindows, tmp_path: Path) -> None:
    class Exporter(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(DCGM.encode())

        def log_message(self, *_: object) -> None: ...

    (query,) = re.findall(r"`([^`]*DCGM_FI_DEV_GPU_UTIL[^`]*)`", DOCUMENT)
    total = re.sub(r"rate\((\w+)\[5m\]\)", r"\1", query)
    with http.server.HTTPServer(("127.0.0.1", 0), Exporter) as exporter:
        threading.Thread(target=exporter.serve_forever, daemon=True).start()
        other = (
            f"  - job_name: dcgm\n    static_configs: [{{targets: ['127.0.0.1:{exporter.server_port}']}}]\n"
        )
        with endpoint(tmp_path) as port, prometheus(tmp_path, port, other) as server:
            tracer.publish(full_window())
            found = wait_until(lambda: server.query(total), what="both scrapes")
            assert wait_until(lambda: server.query(query), what="a rate").keys() == found.keys()
        exporter.shutdown()
    active = {one.device: one.active_ns / 1e9 for one in full_window().evidence.activity}
    assert {dict(labels).get("GPU_I_ID", ""): value for labels, value in found.items()} == {
        "": pytest.approx(50 * active["0"]),
        "9": pytest.approx(25 * active["0:3"]),
    }


def at(second: float, *calls: Calls) -> Window:
    return window(calls, start=1_700_000_000.0 + second)


def scraped(server: Prometheus, one: Window) -> float:
    """Waits until Prometheus has a scrape with the window ``one``; returns when that was."""
    name = "stalltop_window_end_timestamp_seconds"
    wait_until(lambda: server.value(name) == one.end, what="a scrape of the window")
    moment = server.scraped_at(name)
    assert moment is not None
    return moment


def test_series_of_an_ended_tenant_are_stale_at_once(tracer: PublishedWindows, tmp_path: Path) -> None:
    first = at(0, Calls(key(), [1_000]), Calls(key(tenant="cri:bb"), [2_000]))
    later = at(ENDED_SECONDS + 2, Calls(key(tenant="cri:bb"), [2_000]))
    later = replace(later, tenants={"cri:bb": later.tenants["cri:bb"]})
    with endpoint(tmp_path) as port, prometheus(tmp_path, port) as server:
        tracer.publish(first)
        scraped(server, first)
        assert server.value('stalltop_calls_total{tenant="train"}') == 1
        tracer.publish(later)
        scraped(server, later)
        # Without a mark of staleness, Prometheus would go on with the last value for five minutes.
        assert server.query('{tenant="train"}') == {}
        assert server.value('stalltop_calls_total{tenant="serve"}') == 2


def test_labels_of_pods_are_kept_and_the_job_of_the_scrape_too(
    tracer: PublishedWindows, tmp_path: Path
) -> None:
    one = at(0, Calls(key(tenant="cri:bb"), [1_000]))
    target = "    relabel_configs: [{target_label: pod, replacement: stalltop-x7}]\n"
    with endpoint(tmp_path) as port, prometheus(tmp_path, port, target) as server:
        tracer.publish(one)
        scraped(server, one)
        (labels,) = server.query("stalltop_calls_total")
        assert server.value('stalltop_tracing{pod="stalltop-x7"}') == 1
    assert dict(labels) == {
        "tenant": "serve",
        "namespace": "prod",
        "pod": "llm-0",
        "container": "server",
        "operation": "cudaLaunchKernel",
        "job": "stalltop",
        "instance": f"127.0.0.1:{port}",
    }


def test_prometheus_scrapes_with_tls_and_a_token(tracer: PublishedWindows, tmp_path: Path) -> None:
    cert, private, token = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "token"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *(
                "-keyout",
                private,
                "-out",
                cert,
                "-subj",
                "/CN=gpu7",
                "-addext",
                "subjectAltName=IP:127.0.0.1",
            ),
        ],
        check=True,
        capture_output=True,
    )
    secured = (
        "    scheme: https\n"
        f"    tls_config: {{ca_file: {cert}}}\n"
        f"    authorization: {{credentials_file: {token}}}\n"
    )
    options = ("--cert", str(cert), "--key", str(private), "--token-file", str(token))
    one = at(0, Calls(key(), [1_000]))
    with endpoint(tmp_path, *options) as port:
        tracer.publish(one)
        (tmp_path / "open").mkdir()
        with prometheus(tmp_path, port, secured) as server:
            scraped(server, one)
            assert server.value("stalltop_calls_total") == 1
        with prometheus(tmp_path / "open", port, secured.partition("    authorization")[0]) as server:
            assert wait_until(lambda: server.query("up"), what="a scrape")
            assert server.value("up") == 0
            assert server.query("stalltop_tracing") == {}


# ---- with real calls


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can trace")
def test_counts_equal_those_of_the_recording_and_quantiles_are_in_its_bucket(
    built: Built, tmp_path: Path, tracer_socket: Path
) -> None:
    path = tmp_path / "r.stalltop"
    percents = (50.0, 95.0, 99.0)
    with recorder(path, tmp_path / "state"):
        wait_until(tracer_socket.exists, what="the socket of the tracer")
        with (
            DemoTenants("trio", built=built),
            endpoint(tmp_path) as port,
            prometheus(tmp_path, port) as server,
        ):
            wait_until(
                lambda: len(server.query(f"stalltop_calls_total > {LEAST_CALLS}")) >= 4,
                what="calls of four operations",
            )
            moment, end = scraped_and_recorded(server, path)
            began = server.value("stalltop_unobserved_seconds_created", moment)
            assert server.value("stalltop_unobserved_seconds_total", moment) == 0
            counts = server.query("stalltop_calls_total", moment)
            sums = server.query("stalltop_call_duration_seconds_sum", moment)
            quantiles = [
                server.query(
                    f"histogram_quantile({percent / 100}, stalltop_call_duration_seconds_bucket)", moment
                )
                for percent in percents
            ]
    assert began is not None
    with open_file(path) as recorded:
        windows = [one for one in recorded.windows() if one.start > began - 1e-3 and one.end < end + 1e-3]
    recording = merge(windows)
    assert recording.start == pytest.approx(began, abs=1e-3)
    assert recording.end == pytest.approx(end, abs=1e-3)

    compared = 0
    for labels, rows in grouped(recording).items():
        series = tuple(sorted({**dict(labels), "job": "stalltop", "instance": f"127.0.0.1:{port}"}.items()))
        taken = recording.rows.take(np.array(rows))
        calls = int(taken.calls.sum())
        assert counts.pop(series) == calls
        assert sums[series] == pytest.approx(float(taken.total_ns.sum()) / 1e9, rel=1e-12)
        if calls < LEAST_CALLS:
            continue
        together = taken.histograms.grouped(np.zeros(len(rows), np.int64), 1)
        for percent, found in zip(percents, quantiles, strict=True):
            # A quantile between two calls may be that of either.
            either = together.percentiles((percent - 100.0 / calls, percent + 100.0 / calls))[0]
            first, last = np.searchsorted(EDGES_NS, either).tolist()
            lowest = EDGES_NS[first - 1] if first else 0
            assert lowest <= found[series] * 1e9 <= EDGES_NS[last] + 1e-3, (labels, percent)
            compared += 1
    assert counts == {}
    assert compared >= 9
