"""Runs the Prometheus that ``scripts/fetch-receivers`` fetched, and asks it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.kernel.harness import wait_until

ROOT = Path(__file__).resolve().parents[3]
_FETCHED = ROOT / ".vendor" / "prometheus" / "usr" / "bin"
PROMETHEUS = _FETCHED / "prometheus"
PROMTOOL = _FETCHED / "promtool"
NATIVE_PROMETHEUS = ROOT / ".vendor" / "prometheus-trixie" / "usr" / "bin" / "prometheus"
"""That of Debian 13, which has native histograms."""
FETCHED = PROMETHEUS.is_file()
Found = dict[tuple[tuple[str, str], ...], float]
"""Value of each series by its labels, without its name."""


class Prometheus:
    """A running Prometheus, which scrapes every second."""

    def __init__(self, port: int) -> None:
        self._port = port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def get(self, path: str, **parameters: str) -> Any:
        """Returns what its API answers. Raises AssertionError if it refuses the request."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)) as line:
            line.request("GET", f"/api/v1/{path}?{urlencode(parameters)}")
            answer = json.loads(line.getresponse().read())
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str, at: float | None = None) -> Found:
        """Returns the result of a PromQL expression at a Unix time; None: now."""
        moment = {} if at is None else {"time": repr(at)}
        return {
            tuple(sorted((k, v) for k, v in one["metric"].items() if k != "__name__")): float(one["value"][1])
            for one in self.get("query", query=expression, **moment)["result"]
        }

    def value(self, expression: str, at: float | None = None) -> float | None:
        """Returns the result of an expression that has one value; None if it has none."""
        found = tuple(self.query(expression, at).values())
        assert len(found) <= 1
        return found[0] if found else None

    def scraped_at(self, name: str) -> float | None:
        """Returns when the newest sample of a series without labels was scraped, Unix seconds; None:
        never."""
        return self.value(f"timestamp({name})")


@contextlib.contextmanager
def prometheus(
    folder: Path, port: int, scrape: str = "", *, options: Sequence[str] = (), native: bool = False
) -> Iterator[Prometheus]:
    """Runs Prometheus for the endpoint at ``port``. ``scrape`` is added to its section, and ``options`` to
    its command line. ``native``: the one of Debian 13, which asks for native histograms."""
    settings = folder / "prometheus.yml"
    settings.write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        "  - job_name: stalltop\n"
        "    honor_labels: true\n"
        f"    static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n{scrape}"
    )
    own = free_port()
    command = [str(NATIVE_PROMETHEUS if native else PROMETHEUS)]
    command += [f"--config.file={settings}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    command += [f"--web.listen-address=127.0.0.1:{own}", "--log.level=warn"]
    command += [*options, *(["--enable-feature=native-histograms"] if native else [])]
    log = folder / "prometheus.log"
    with log.open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said, cwd=folder) as process:
        try:
            wait_until(lambda: answers(own, "/-/ready") or process.poll() is not None, what="Prometheus")
            assert process.poll() is None, log.read_text()
            yield Prometheus(own)
        finally:
            process.terminate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def answers(port: int, path: str) -> bool:
    """Returns whether a server on this port has success at ``path``."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as line:
        try:
            line.request("GET", path)
            return line.getresponse().status == 200
        except OSError:
            return False


def served(port: int, wanted: str = "") -> str:
    """Returns what the endpoint serves to a client that accepts the content type ``wanted``."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as line:
        line.request("GET", "/metrics", headers={"Accept": wanted})
        return line.getresponse().read().decode()


@contextlib.contextmanager
def endpoint(folder: Path, *arguments: str) -> Iterator[int]:
    """Runs ``stalltop metrics`` and yields its port. It must end with 0 when it is asked to."""
    command = [sys.executable, "-P", "-m", "stalltop", "metrics", "--listen", "127.0.0.1:0", *arguments]
    said = folder / "metrics.log"
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    with (
        said.open("wb") as errors,
        subprocess.Popen(command, stderr=errors, cwd=ROOT, env=environment) as process,
    ):
        try:
            found = wait_until(
                lambda: process.poll() is not None or re.search(r":(\d+)/metrics", said.read_text()),
                what="the endpoint",
            )
            assert isinstance(found, re.Match), said.read_text()
            yield int(found[1])
            process.send_signal(signal.SIGTERM)
            assert process.wait(100) == 0, said.read_text()
        finally:
            process.kill()
