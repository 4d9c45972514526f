"""Measures how the monitor's cost grows with the number of processes that make calls."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.measuring.figures import FigureColumn, measured
from bench.measuring.table import TextTable
from bench.monitor.watching import without_screen
from bench.monitor.workload import CALLS, scenario
from stalltop.demo.build import Built
from stalltop.demo.tenants import DemoTenants
from stalltop.model.errors import StalltopError

SUMMARY: Final = (
    "memory, CPU, discovery and missed calls with 10, 90 and 500 processes, and beside 10,000 others"
)
HOSTS: Final = ((10, 10, 0), (90, 36, 0), (500, 200, 0), (10, 10, 10_000))
"""Numbers of processes that make calls, of their containers, and of other processes."""
CYCLES_A_SECOND: Final = 1.5
"""How often each process makes all of its calls: few, so that the monitor's cost is that of the rows."""


def run(built: Built, folder: Path, *, quick: bool) -> list[TextTable]:
    """Measures and returns the table. Raises StalltopError."""
    seconds = 10.0 if quick else 30.0
    table = TextTable(
        f"scale: the monitor without a screen at 1 Hz, {seconds:.0f} s; {CALLS} calls/s by each process",
        (
            "processes",
            "containers",
            "others",
            FigureColumn("rows", "", ""),
            FigureColumn("kernel MB", "MB"),
            FigureColumn("resident MB", "MB"),
            FigureColumn("own MB", "MB"),
            FigureColumn("CPU %", "%"),
            FigureColumn("helpers CPU %", "%"),
            FigureColumn("complete s", "s"),
            FigureColumn("missed", "calls"),
            FigureColumn("at the start", "calls"),
        ),
    )
    for processes, containers, others in HOSTS:
        print(f"scale: {processes} processes in {containers} containers, {others} others", file=sys.stderr)
        rate = processes * CALLS * CYCLES_A_SECOND
        with _sleeping(others), DemoTenants(scenario(rate, containers, processes), built=built):
            found = without_screen(seconds)
        table.add(
            f"{processes}",
            f"{containers}",
            f"{others:,}",
            measured(found.rows, ",d"),
            measured(found.kernel_mb, ".0f"),
            measured(found.memory_mb, ".0f"),
            measured(found.own_mb, ".0f"),
            measured(found.cpu_percent, ".2f"),
            measured(found.helpers_percent, ".2f"),
            measured(found.complete_s, ".1f"),
            measured(found.lost, ",d"),
            measured(found.lost_at_start, ",d"),
        )
    table.notes += [
        "",
        "others: processes that make no calls and sleep",
        "kernel: maps and programs, whose limit is --memory; resident: of the monitor's process, with the",
        "maps that it has mapped; own: without shared memory",
        "CPU %: of one core, by the monitor's process; helpers CPU %: by those that it starts",
        "complete: time from the first window until nine tenths of the rows were in one",
        "missed: calls that were not counted, during the measurement and in the 12 s before it",
    ]
    return [table]


@contextlib.contextmanager
def _sleeping(number: int) -> Iterator[None]:
    """Runs so many processes that sleep, in a PID namespace that ends with the ``with`` block or this
    process."""
    script = 'i=0; while [ $i -lt "$0" ]; do sleep 3600 & i=$((i + 1)); done; echo; wait'
    command = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", script, str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise StalltopError(f"{number} processes could not be started")
            yield
        finally:
            process.kill()
