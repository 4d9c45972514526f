"""Measures what a recording costs: disk space, CPU time to write windows, and time to open and query the
file."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from bench.measuring.figures import FigureColumn, FigureText, measured
from bench.measuring.spread import Spread
from bench.measuring.table import TextTable
from bench.monitor.week import InventedHost, make
from stalltop.demo.build import Built
from stalltop.recordings.read.reading import open_file
from stalltop.recordings.write.bounds import DEFAULT_BYTES
from stalltop.recordings.write.recording import Recording

SUMMARY: Final = "a recording of a week: its size, seconds to open and to query it, and the cost of a window"
ROWS: Final = 100
_END: Final = 1_750_000_000.0
_WINDOWS: Final = 300
"""Number of windows, each 1 s long, that are written to measure the cost of a window."""
_QUERIES: Final = {
    "launches by kernel": "SELECT container_id, kernel_name, COUNT(*) AS launches,"
    " SUM(duration_ns)/1e6 AS total_ms FROM cuda_events e JOIN containers c ON c.cgroup_id = e.cgroup_id"
    " GROUP BY container_id, kernel_name ORDER BY total_ms DESC LIMIT 20",
    "NCCL by container": "SELECT container_id, op, COUNT(*) AS calls, AVG(duration_ns)/1e6 AS avg_ms,"
    " MAX(duration_ns)/1e6 AS p100_ms FROM nccl_events e JOIN containers c ON c.cgroup_id = e.cgroup_id"
    " GROUP BY container_id, op",
}


class Unflushed(Recording):
    """A recording that does not wait until windows are on the disk: a power failure would lose some."""

    def _open(self) -> None:
        super()._open()
        self._db.execute("PRAGMA synchronous = NORMAL")


def run(built: Built, folder: Path, *, quick: bool) -> list[TextTable]:
    """Measures and returns the tables."""
    days = 1 if quick else 7
    path = folder / "week.stalltop"
    host = InventedHost(ROWS)
    print(f"recording: making {days} days of {ROWS} rows (takes minutes)", file=sys.stderr)
    windows = make(path, host, days * 86_400, _END)
    return [_file(path, windows, days, quick=quick), _windows(folder, host, path)]


def _file(path: Path, windows: int, days: int, *, quick: bool) -> TextTable:
    rounds = 3 if quick else 7
    table = TextTable(
        f"recording: {days} days of a host with {ROWS} rows a second ({windows} windows), {rounds} rounds",
        ("what", FigureColumn("measured", "s"), FigureColumn("target", told_only=True)),
    )
    size = measured(path.stat().st_size / (1 << 20), ".0f", "MiB")
    table.add("size, MiB", size, f"{DEFAULT_BYTES >> 20}")
    print("recording: opening", file=sys.stderr)
    table.add("open, list and newest window, s", _seconds(lambda: _first(path), rounds), "1")
    table.add("record to it again: open and close, s", _seconds(lambda: Recording(path).close(), rounds), "-")
    for name, sql in _QUERIES.items():
        print(f"recording: {name}", file=sys.stderr)
        command = [sys.executable, "-P", "-m", "stalltop", "query", str(path), sql]
        asked = _seconds(partial(_run, command), rounds)
        table.add(f"stalltop query, {name}, s", asked, "2")
    return table


def _windows(folder: Path, host: InventedHost, week: Path) -> TextTable:
    table = TextTable(
        f"recording: a window of {ROWS} rows, ms, mean of {_WINDOWS} (longest)",
        (
            "to",
            FigureColumn("write", "ms"),
            FigureColumn("of it CPU", "ms"),
            FigureColumn("merge old windows, enforce limits", "ms"),
            FigureColumn("of it CPU", "ms"),
            FigureColumn("% of a core at 1 Hz", "%"),
        ),
    )
    for name, kind, path in (
        ("a new file", Recording, folder / "new.stalltop"),
        ("a new file, without fsync", Unflushed, folder / "unflushed.stalltop"),
        ("the week", Recording, week),
    ):
        print(f"recording: windows to {name}", file=sys.stderr)
        recording = kind(path)
        wrote: list[tuple[float, float]] = []
        tended: list[tuple[float, float]] = []
        for second in range(_WINDOWS):
            window = host.window(_END + second, 1.0)
            wrote.append(_timed(partial(recording.add, window)))
            tended.append(_timed(recording.tend))
        recording.close()
        table.add(
            name,
            *(
                cell
                for parts in (wrote, tended)
                for cell in (_milliseconds(parts, 0), _milliseconds(parts, 1))
            ),
            measured(100 * sum(cpu for parts in (wrote, tended) for _, cpu in parts) / _WINDOWS, ".2f"),
        )
    return table


def _first(path: Path) -> None:
    with open_file(path) as recorded:
        recorded.window(int(recorded.moments.window_id[-1]))


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _seconds(work: Callable[[], object], rounds: int) -> str:
    return Spread.of([_timed(work)[0] for _ in range(rounds)]).text(".2f")


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Runs ``work``; returns how long it took, s: the wall time, and the CPU time of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def _milliseconds(parts: list[tuple[float, float]], which: int) -> str:
    values = [1_000 * part[which] for part in parts]
    mean = statistics.fmean(values)
    return FigureText(f"{mean:.2f} ({max(values):.0f})", (mean,))
