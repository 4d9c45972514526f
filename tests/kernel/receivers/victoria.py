"""Runs the VictoriaMetrics that ``scripts/fetch-receivers`` fetched: it takes OTLP, and understands the API
and the queries of Prometheus."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kernel.harness import wait_until
from tests.kernel.receivers.prometheus import ROOT, Prometheus, answers

VICTORIA = ROOT / ".vendor" / "victoria-metrics" / "usr" / "bin" / "victoria-metrics"
FETCHED = VICTORIA.is_file()


def otlp(port: int) -> str:
    """Returns the URL to which VictoriaMetrics on ``port`` accepts OTLP."""
    return f"http://127.0.0.1:{port}/opentelemetry"


class VictoriaServer(Prometheus):
    """A running VictoriaMetrics."""

    def get(self, path: str, **parameters: str) -> Any:
        """Returns what its API answers, with everything that it was sent: otherwise the newest seconds are
        not yet visible."""
        assert answers(self._port, "/internal/force_flush")
        return super().get(path, **parameters)


@contextlib.contextmanager
def victoria(folder: Path, port: int) -> Iterator[VictoriaServer]:
    """Runs VictoriaMetrics on a port of the loopback."""
    command = [str(VICTORIA), f"-storageDataPath={folder / 'victoria'}", f"-httpListenAddr=127.0.0.1:{port}"]
    # Otherwise the newest 30 s are hidden, because other senders may still add to them.
    command += ["-search.latencyOffset=0s", "-search.disableCache", "-opentelemetry.usePrometheusNaming"]
    log = folder / "victoria.log"
    with (
        log.open("wb") as said,
        subprocess.Popen(command, stdout=said, stderr=said, cwd=folder) as process,
    ):
        try:
            wait_until(lambda: answers(port, "/health") or process.poll() is not None, what="VictoriaMetrics")
            assert process.poll() is None, log.read_text()
            yield VictoriaServer(port)
        finally:
            process.terminate()
