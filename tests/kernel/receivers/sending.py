"""Sends windows by OTLP in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from stalltop.formats.otlp.answers import refused
from stalltop.serving.otlp.exporter import OtlpExporter
from stalltop.serving.otlp.output import OtlpOutput

SECONDS = 30.0


@contextlib.contextmanager
def sending(url: str, folder: Path) -> Iterator[OtlpOutput]:
    """Sends to the receiver at ``url`` every ``SECONDS``, and everything at the end."""
    told: list[str] = []
    exporter = OtlpExporter(url, folder, {}, refused, told.append)
    exporter.start()
    output = OtlpOutput(exporter, "1", {}, series=1000, seconds=SECONDS)
    yield output
    output.finish()
    exporter.stop(100)
    # Receivers of metrics take no logs, and say so.
    wrong = [one for one in told if "OTLP logs: " not in one and "trying again" not in one]
    assert set(wrong) <= {"OTLP metrics: works again"}, told
