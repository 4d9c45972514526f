"""A recording of real calls, to compare with what receivers have."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from stalltop.formats.metrics.exponential import BASE
from stalltop.formats.metrics.labels import CallLabels, WindowLabels, label_values
from stalltop.model.window import Window
from stalltop.recordings.read.reading import open_file
from tests.kernel.harness import wait_until
from tests.kernel.receivers.prometheus import ROOT, Prometheus

LEAST_CALLS = 500
"""Fewer calls say little about a p99."""


@contextlib.contextmanager
def recorder(path: Path, state: Path) -> Iterator[None]:
    """Runs ``stalltop record``, which is the tracer, and ends it so that all its windows are written."""
    command = [sys.executable, "-P", "-m", "stalltop", "record", "--to", str(path)]
    environment = {**os.environ, "XDG_STATE_HOME": str(state)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert "recording to" in process.stderr.readline()
            drain = threading.Thread(target=process.stderr.read, daemon=True)
            drain.start()
            yield
            process.send_signal(signal.SIGINT)
            assert process.wait(100) == 0
            drain.join()
        finally:
            process.kill()


def grouped(one: Window) -> dict[tuple[tuple[str, str], ...], list[int]]:
    """Returns the rows of outermost calls by the labels of their series."""
    labels = WindowLabels(one)
    found: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for number, row in enumerate(one.rows.keys):
        if row.outermost and one.rows.calls[number]:
            series = label_values(CallLabels(labels.who(row.tenant), row.operation))
            found.setdefault(tuple(series.items()), []).append(number)
    return found


def check_quantiles(recording: Window, rows: list[int], percent: float, found: float) -> bool:
    """Asserts that a percentile of these rows is in the same exponential bucket as what a receiver ``found``,
    s. Returns False if there are too few calls to compare."""
    taken = recording.rows.take(np.array(rows))
    calls = float(taken.calls.sum())
    if calls < LEAST_CALLS:
        return False
    together = taken.histograms.grouped(np.zeros(len(rows), np.int64), 1)
    # A quantile between two calls may be that of either. A counter of the recording is at most 0.8 % wide.
    low, high = together.percentiles((percent - 100.0 / calls, percent + 100.0 / calls))[0].tolist()
    assert low / 1e9 / BASE / 1.004 <= found <= high / 1e9 * BASE * 1.004
    return True


def scraped_and_recorded(server: Prometheus, path: Path) -> tuple[float, float]:
    """Waits until a window of the recording ends where a scrape's newest window does: both take windows at
    their own pace. Returns when Prometheus scraped it, and when the window ended."""
    name, scrapes = "stalltop_window_end_timestamp_seconds", dict[float, float]()

    def found() -> float:
        moment = server.scraped_at(name)
        end = None if moment is None else server.value(name, moment)
        if moment is not None and end is not None:
            scrapes.setdefault(end, moment)
        with open_file(path) as recorded:
            ends = [one.end for one in recorded.windows()]
        return next((one for one in scrapes if any(abs(one - end) < 1e-3 for end in ends)), 0.0)

    end = wait_until(found, step=0.3, what="a scrape of a recorded window")
    return scrapes[end], end
