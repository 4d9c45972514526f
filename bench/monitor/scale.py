"""Measures how the monitor's cost grows with the number of processes that make calls."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from bench.measuring.figures import FigureColumn, measured
from bench.measuring.table import TextTable
from bench.monitor.watching import without_screen
from bench.monitor.workload import CALLS, scenario
from stalltop.demo.build import Built
from stalltop.demo.tenants import DemoTenants

SUMMARY: Final = "memory, CPU, discovery and missed calls with 10, 90 and 500 processes"
HOSTS: Final = ((10, 10), (90, 36), (500, 200))
"""Numbers of processes and of their containers."""
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
            FigureColumn("rows", "", ""),
            FigureColumn("kernel MB", "MB"),
            FigureColumn("resident MB", "MB"),
            FigureColumn("own MB", "MB"),
            FigureColumn("CPU %", "%"),
            FigureColumn("complete s", "s"),
            FigureColumn("missed", "calls"),
            FigureColumn("at the start", "calls"),
        ),
    )
    for processes, containers in HOSTS:
        print(f"scale: {processes} processes in {containers} containers", file=sys.stderr)
        rate = processes * CALLS * CYCLES_A_SECOND
        with DemoTenants(scenario(rate, containers, processes), built=built):
            found = without_screen(seconds)
        table.add(
            f"{processes}",
            f"{containers}",
            measured(found.rows, ",d"),
            measured(found.kernel_mb, ".0f"),
            measured(found.memory_mb, ".0f"),
            measured(found.own_mb, ".0f"),
            measured(found.cpu_percent, ".2f"),
            measured(found.complete_s, ".1f"),
            measured(found.lost, ",d"),
            measured(found.lost_at_start, ",d"),
        )
    table.notes += [
        "",
        "kernel: maps and programs, whose limit is --memory; resident: of the monitor's process, with the",
        "maps that it has mapped; own: without shared memory; CPU %: of one core, by the monitor's process",
        "complete: time from the first window until nine tenths of the rows were in one",
        "missed: calls that were not counted, during the measurement and in the 12 s before it",
    ]
    return [table]
