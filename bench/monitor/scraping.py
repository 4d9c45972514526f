"""Measures what metrics cost: a scrape, adding a window, and what Prometheus stores."""

from __future__ import annotations

import gzip
import json
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.measuring.figures import FigureColumn, measured
from bench.measuring.table import TextTable
from bench.monitor.workload import CALLS, scenario
from stalltop.demo.build import Built
from stalltop.demo.tenants import DemoTenants
from stalltop.diagnosis.diagnosed import Diagnosed
from stalltop.diagnosis.engine import Diagnosis
from stalltop.formats.metrics.buckets import POWERS
from stalltop.formats.metrics.exponential import EXPONENTIAL
from stalltop.formats.metrics.exposition import Exposition
from stalltop.formats.metrics.native import NativeExposition
from stalltop.formats.metrics.points import pass_on
from stalltop.formats.metrics.totals import HostTotals
from stalltop.formats.otlp.metrics import OtlpMetrics
from stalltop.model.errors import StalltopError
from stalltop.probes.monitor import Monitor
from stalltop.serving.access import Access, known_hosts
from stalltop.serving.metrics.endpoint import EndpointOptions, MetricsEndpoint
from tests.kernel.receivers.prometheus import NATIVE_PROMETHEUS, PROMETHEUS, Prometheus, prometheus

SUMMARY: Final = "a scrape of metrics at 2,600 rows: size, CPU time, and what Prometheus stores in a day"
TENANTS, PROCESSES = 20, 35
"""35 processes have about 2,600 rows: more than the default bound on series."""
CYCLES_A_SECOND: Final = 0.5
SERIES: Final = 1000
_INTERVAL: Final = 15
"""Seconds from one scrape to the next."""
_SETTLE_SECONDS: Final = 20.0
_REQUESTS: Final = 5
_DAY: Final = 86_400
_BLOCKS_A_DAY: Final = 12
"""Prometheus writes a block every two hours. Their indexes become one when blocks are joined later, so this
is an upper bound."""
_SNAPSHOT: Final = ("--web.enable-admin-api",)


@dataclass
class ServedTotals:
    """Totals with one kind of buckets, and their endpoint."""

    name: str
    totals: HostTotals
    native: bool
    add_s: list[float] = field(default_factory=list)
    scrape_s: list[float] = field(default_factory=list)

    def endpoint(self) -> MetricsEndpoint:
        """Returns the endpoint, which measures the CPU time of each scrape."""

        def fill(made: Exposition | NativeExposition) -> None:
            began = time.thread_time()
            pass_on(self.totals, "0", made)
            content = made.content() if isinstance(made, NativeExposition) else made.text().encode()
            gzip.compress(content, 6)
            self.scrape_s.append(time.thread_time() - began)

        where = EndpointOptions("127.0.0.1", 0, Access(known_hosts(("127.0.0.1",))), False)
        return MetricsEndpoint(fill, where, fill if self.native else None)

    def size(self) -> tuple[int, int]:
        """Returns the bytes of a scrape, plain and compressed."""
        made: Exposition | NativeExposition = (
            NativeExposition() if self.native else Exposition(openmetrics=True)
        )
        pass_on(self.totals, "0", made)
        content = made.content() if isinstance(made, NativeExposition) else made.text().encode()
        return len(content), len(gzip.compress(content, 6))


def run(built: Built, folder: Path, *, quick: bool) -> list[TextTable]:
    """Measures and returns the table. Raises StalltopError if there is no Prometheus."""
    if not (PROMETHEUS.is_file() and NATIVE_PROMETHEUS.is_file()):
        raise StalltopError("there is no Prometheus", "run scripts/fetch-receivers")
    seconds = 60 if quick else 600
    kinds = [
        ServedTotals("28 buckets", HostTotals(SERIES, POWERS), False),
        ServedTotals("native histograms", HostTotals(SERIES, EXPONENTIAL), True),
    ]
    table = TextTable(
        f"scraping: every {_INTERVAL} s for {seconds} s, {PROCESSES} processes in {TENANTS} containers",
        (
            "histograms",
            FigureColumn("rows", "", ""),
            FigureColumn("series of calls", "", ""),
            FigureColumn("samples", ""),
            FigureColumn("MB", "MB"),
            FigureColumn("compressed KB", "KB"),
            FigureColumn("scrape ms", "ms"),
            FigureColumn("window ms", "ms"),
            FigureColumn("bytes a sample", "B"),
            FigureColumn("MB a day", "MB"),
        ),
    )
    rate = PROCESSES * CALLS * CYCLES_A_SECOND
    print(f"scraping: {PROCESSES} processes for {seconds + _SETTLE_SECONDS:.0f} s", file=sys.stderr)
    with DemoTenants(scenario(rate, TENANTS, PROCESSES), built=built):
        rows, stored = _scraped(kinds, folder, seconds)
    for kind, (samples, chunk_bytes, index_bytes) in zip(kinds, stored, strict=True):
        day_bytes = chunk_bytes / seconds * _DAY + index_bytes * _BLOCKS_A_DAY
        plain, compressed = kind.size()
        scrapes = seconds / _INTERVAL
        table.add(
            kind.name,
            measured(rows, ",d"),
            measured(len(kind.totals.calls), ",d"),
            measured(samples / scrapes, ",.0f"),
            measured(plain / 1e6, ".1f"),
            measured(compressed / 1e3, ".0f"),
            measured(_median(kind.scrape_s) * 1e3, ".0f"),
            measured(_median(kind.add_s) * 1e3, ".1f"),
            measured(chunk_bytes / samples, ".2f"),
            measured(day_bytes / 1e6, ".0f"),
        )
    table.notes += [
        "",
        "scrape: CPU time of making and compressing the answer; window: of adding a window, each second",
        "bytes a sample: chunks in a snapshot of Prometheus' storage",
        "a day: these, and twelve times the index, because a block of two hours has one",
    ]
    return [table, _otlp(kinds[1].totals)]


def _otlp(totals: HostTotals) -> TextTable:
    """Measures a request of OTLP with the totals of native histograms, whose buckets are the same."""
    table = TextTable(
        "scraping, OTLP: a request of metrics with the same series",
        (
            "histograms",
            FigureColumn("series of calls", "", ""),
            FigureColumn("KB", "KB"),
            FigureColumn("compressed KB", "KB"),
            FigureColumn("request ms", "ms"),
        ),
    )
    requests = OtlpMetrics(totals, "0", {})
    content, took = b"", []
    for _ in range(_REQUESTS):
        began = time.thread_time()
        content = requests.request()
        compressed = gzip.compress(content)
        took.append(time.thread_time() - began)
    table.add(
        "exponential",
        measured(len(totals.calls), ",d"),
        measured(len(content) / 1e3, ".0f"),
        measured(len(compressed) / 1e3, ".0f"),
        measured(_median(took) * 1e3, ".0f"),
    )
    return table


def _scraped(kinds: list[ServedTotals], folder: Path, seconds: int) -> tuple[int, list[tuple[int, int, int]]]:
    """Traces while two Prometheus scrape. Returns the number of rows, and for each of ``kinds`` the samples
    and the bytes of chunks and indexes that Prometheus has stored."""
    source = Diagnosed(Monitor(), Diagnosis())
    endpoints = [kind.endpoint() for kind in kinds]
    try:
        for endpoint in endpoints:
            endpoint.start()
        rows = _read(source, kinds, time.monotonic() + _SETTLE_SECONDS)
        for kind in kinds:
            kind.add_s.clear()
        folders = [folder / str(number) for number in range(len(kinds))]
        for one in folders:
            one.mkdir()
        scrape = f"    scrape_interval: {_INTERVAL}s\n"
        with (
            prometheus(folders[0], endpoints[0].port, scrape, options=_SNAPSHOT) as first,
            prometheus(folders[1], endpoints[1].port, scrape, options=_SNAPSHOT, native=True) as second,
        ):
            rows = _read(source, kinds, time.monotonic() + seconds)
            stored = [_stored(*pair) for pair in zip((first, second), folders, strict=True)]
    finally:
        for endpoint in endpoints:
            endpoint.stop()
        source.close()
    return rows, stored


def _read(source: Diagnosed, kinds: list[ServedTotals], until: float) -> int:
    """Reads a window a second and adds it; returns the largest number of rows."""
    rows = 0
    while time.monotonic() < until:
        time.sleep(1.0)
        window = source.read()
        rows = max(rows, len(window.rows))
        for kind in kinds:
            kind.add_s.append(_timed(lambda kind=kind, window=window: kind.totals.add(window)))  # type: ignore[misc]
    return rows


def _stored(server: Prometheus, folder: Path) -> tuple[int, int, int]:
    """Returns how many samples Prometheus has, and the bytes of the chunks and indexes in its snapshot."""
    request = urllib.request.Request(f"{server.url}/api/v1/admin/tsdb/snapshot", method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        name = json.loads(answer.read())["data"]["name"]
    snapshot = folder / "tsdb" / "snapshots" / name
    samples = sum(
        json.loads(meta.read_text())["stats"]["numSamples"] for meta in snapshot.glob("*/meta.json")
    )
    if not samples:
        raise StalltopError("Prometheus has stored no samples")
    chunks, index = (
        sum(path.stat().st_size for path in snapshot.glob(pattern)) for pattern in ("*/chunks/*", "*/index")
    )
    return samples, chunks, index


def _timed(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
