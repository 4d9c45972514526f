"""Tests ``stalltop metrics``: refusals, and a run as a client of a tracer."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from stalltop.cli import main as cli
from stalltop.cli.commands.metrics import listen_address
from stalltop.cli.otlp import pairs
from stalltop.recordings.read.reading import open_file
from stalltop.serving.host.tracer_server import TracerServer
from tests.tui.sources import numbered
from tests.unit.serving.host.tracers import TRACER, seated


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "0.0.0.0:0"], "without TLS and a token"),
        (["--listen", ":0"], "without TLS and a token"),
        (["--listen", "[::]:0", "--token-file", "/no/such"], "--cert, --key and --token-file"),
        (["--listen", "9470"], "no address with a port"),
        (["--listen", "no-such-host.invalid:0"], "cannot resolve --listen"),
        (["--cert", "/no/such"], "must be given together"),
        (["--cert", "/no/such", "--key", "/no/such"], "No such file"),
        (["--token-file", "/dev/null"], "cannot use --token-file /dev/null"),
        (["--series", "0"], "--series"),
        (["--otlp", "collector:4318"], "is no URL"),
    ],
)
def test_bad_usage_ends_with_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = cli.main(["metrics", "--simulated", *arguments])
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert said in told.err


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9470", ("127.0.0.1", 9470)),
        ("[::1]:0", ("::1", 0)),
        (":9470", ("", 9470)),
        ("gpu7:1", ("gpu7", 1)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["", "gpu7", "gpu7:", "gpu7:x", "gpu7:65536", "::1:9470", "gpu7:-1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        listen_address(text)


def test_headers_in_another_form_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization")
    assert cli.main(["metrics", "--simulated", "--otlp", "http://127.0.0.1:1"]) == 2
    assert "OTEL_EXPORTER_OTLP_HEADERS" in capsys.readouterr().err


def test_headers_are_decoded_as_the_specification_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x%3D, a = b ,")
    assert pairs("OTEL_EXPORTER_OTLP_HEADERS") == {"authorization": "Bearer x=", "a": "b"}


def test_a_missing_package_is_reported_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto", None)
    assert cli.main(["metrics", "--simulated", "--otlp", "http://127.0.0.1:1"]) == 1
    assert "Python package opentelemetry-proto" in capsys.readouterr().err


def test_a_taken_port_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["metrics", "--simulated", "--listen", f"127.0.0.1:{port}"]) == 1
    assert f"cannot listen on 127.0.0.1, port {port}" in capsys.readouterr().err


@pytest.fixture
def windows(tracer_socket: Path) -> Iterator[threading.Semaphore]:
    """A tracer that sends one window whenever the semaphore is released."""
    seat = seated(tracer_socket)
    server = TracerServer(seat.listener, TRACER)
    server.start()
    wanted, ended = threading.Semaphore(0), threading.Event()

    def publish() -> None:
        number = 0
        while wanted.acquire() and not ended.is_set():
            server.publish(numbered(number))
            number += 1

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    yield wanted
    ended.set()
    wanted.release()
    thread.join()
    server.stop()
    seat.close()


def scraped(port: int) -> dict[str, float]:
    """Returns the sum of each metric over all its series."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text"})
        text = connection.getresponse().read().decode()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def test_a_client_of_the_tracer_serves_and_records_its_windows_until_a_signal(
    windows: threading.Semaphore, tmp_path: Path
) -> None:
    recording = tmp_path / "r.stalltop"
    command = [sys.executable, "-P", "-m", "stalltop", "metrics", "--listen", "127.0.0.1:0"]
    command += ["--record", str(recording)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        try:
            said = [process.stderr.readline() for _ in range(3)]
            assert "windows of the tracer of this host" in said[0]
            assert f"recording to {recording}" in said[1]
            found = re.search(r"metrics at http://127\.0\.0\.1:(\d+)/metrics", said[2])
            assert found is not None, said
            port = int(found[1])
            per_window = sum(
                int(calls)
                for one, calls in zip(numbered(0).rows.keys, numbered(0).rows.calls, strict=True)
                if one.outermost
            )
            for count in range(1, 4):
                windows.release()
                end = numbered(count - 1).end
                while (now := scraped(port)).get("stalltop_window_end_timestamp_seconds") != end:
                    assert process.poll() is None
                assert now["stalltop_calls_total"] == count * per_window
                assert now["stalltop_call_duration_seconds_count"] == count * per_window
            assert now["stalltop_unobserved_seconds_total"] == 0
            assert now["process_cpu_seconds_total"] > 0
            process.send_signal(signal.SIGTERM)
            assert process.wait(100) == 0
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()
    with open_file(recording) as recorded:
        assert [one.end for one in recorded.windows()] == [numbered(number).end for number in range(3)]


def test_a_recording_that_cannot_be_written_is_reported_before_anything_is_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("not a recording")
    assert cli.main(["metrics", "--simulated", "--record", str(tmp_path / "notes.txt")]) == 2
    told = capsys.readouterr().err
    assert "notes.txt" in told
    assert "metrics at" not in told
