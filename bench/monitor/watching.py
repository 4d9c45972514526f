"""Measures what the monitor itself uses while it traces: CPU time, memory, and bytes to the terminal."""

from __future__ import annotations

import contextlib
import json
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.measuring.cpu import cpu_ns, helpers_cpu_ns
from bench.measuring.figures import FigureColumn, measured
from bench.measuring.program import ROOT
from bench.measuring.table import TextTable
from bench.monitor.screen import BTOP_SHOWS, btop_settings
from bench.monitor.terminal import WAIT_SECONDS, OnTerminal
from bench.monitor.workload import OPERATIONS, TENANTS, scenario
from stalltop.demo.build import Built
from stalltop.demo.scenario import load_scenario
from stalltop.demo.tenants import DemoTenants
from stalltop.model.errors import StalltopError

SUMMARY: Final = "CPU, memory and terminal bytes of the monitor, with and without the screen, by load"
RATES: Final = (0, 1_000, 50_000, 500_000)
"""Target rates of traced calls per second; 0: there are no calls to watch."""
DEMO: Final = "trio"
"""The demo with three tenants, the last load."""
_BTOP: Final = "btop"
_SETTLE_SECONDS: Final = 12.0
"""Time to wait before measuring, until the sliding window of ten seconds is full."""
_FULL_RATE: Final = 50_000
_FULL_SECONDS: Final = 240.0
"""Time until the past windows that the screen keeps have reached their memory limit, at ``_FULL_RATE``
calls/s. Quick runs do not wait for that."""


@dataclass(frozen=True, slots=True)
class MonitorFigures:
    """Measurements of a monitor, with or without the screen, at one load."""

    cpu_percent: float
    memory_mb: float
    """Resident memory, including the mapped histograms."""
    own_mb: float
    """Resident memory that is neither file-backed nor shared."""
    helpers_percent: float = 0.0
    """CPU use of the processes that the monitor started, percent of a core."""
    bytes_per_s: float = 0.0
    calls_per_s: float = 0.0
    rows: int = 0
    tenants: int = 0
    lost: int = 0
    probe_percent: float = 0.0
    kernel_mb: float = 0.0
    """Memory of maps and programs in the Linux kernel."""
    lost_at_start: int = 0
    """Calls that were lost before the measurement."""
    complete_s: float = 0.0
    """Time from the first window until nearly all rows were in a window."""


def run(built: Built, folder: Path, *, quick: bool, alone: bool = False) -> list[TextTable]:
    """Measures and returns the table; with ``alone``, only of stalltop, not of btop. Raises StalltopError."""
    seconds = 10.0 if quick else 25.0
    table = TextTable(
        f"watching: the monitor at 1 Hz, {TENANTS} tenants x {OPERATIONS} operations, {seconds:.0f} s each",
        (
            "load",
            FigureColumn("calls/s", "1/s", ""),
            FigureColumn("rows", "", ""),
            FigureColumn("lost", "calls"),
            "screen",
            FigureColumn("CPU %", "%"),
            FigureColumn("CPU / btop", ""),
            FigureColumn("helpers CPU %", "%"),
            FigureColumn("KB/s to terminal", "KB/s"),
            FigureColumn("resident MB", "MB"),
            FigureColumn("own MB", "MB"),
            FigureColumn("probes CPU %", "%"),
        ),
        others=(_BTOP,),
    )
    has_btop = not alone and shutil.which(_BTOP) is not None
    loads = [(f"{rate:,} calls/s", rate, scenario(rate) if rate else None) for rate in RATES]
    loads.append((f"demo {DEMO}", 0, load_scenario(DEMO)))
    for number, (load, rate, tenants) in enumerate(loads):
        # Revisions that are compared take turns at such lines.
        print(f"watching: round {number + 1} of {len(loads)}", file=sys.stderr)
        with contextlib.ExitStack() as stack:
            if tenants is not None:
                stack.enter_context(DemoTenants(tenants, built=built))
            btop = None
            print(f"watching: {load}, without the screen", file=sys.stderr)
            bare = without_screen(seconds)
            print(f"watching: {load}, with the screen", file=sys.stderr)
            settle = _FULL_SECONDS if rate == _FULL_RATE and not quick else _SETTLE_SECONDS
            full = _with_screen(seconds, settle)
            found = [("no", bare), ("120x40", full)]
            if has_btop:
                print(f"watching: {load}, btop", file=sys.stderr)
                btop = _btop(folder, seconds)
                found.append((_BTOP, btop))
        probes = measured(bare.probe_percent, ".1f")
        beside = btop.cpu_percent if btop is not None else 0.0
        for name, figures in found:
            table.add(
                load,
                measured(bare.calls_per_s, ",.0f"),
                measured(bare.rows, "d"),
                measured(bare.lost, "d"),
                name,
                measured(figures.cpu_percent, ".2f"),
                measured(figures.cpu_percent / beside, ".1f") if figures is full and beside else "-",
                measured(figures.helpers_percent, ".2f") if figures is not btop else "-",
                measured(figures.bytes_per_s / 1e3, ".1f") if figures is not bare else "-",
                measured(figures.memory_mb, ".0f"),
                measured(figures.own_mb, ".0f"),
                probes if figures is bare else "-",
            )
    table.notes.append("")
    if not quick:
        table.notes.append(
            f"{_FULL_RATE:,} calls/s with the screen: after {_FULL_SECONDS:.0f} s, "
            "when the past windows that it keeps have reached their memory limit"
        )
    table.notes += [
        "load: the target; calls/s: counted, including nested calls",
        "CPU %: of one core, by the monitor's process; CPU / btop: to that of btop in the same minute",
        "helpers CPU %: by the processes that the monitor starts, which examine what other users control",
        f"{_BTOP}: on a terminal of the same size, at 1 Hz; it shows processes, no calls"
        if has_btop
        else f"{_BTOP} was not measured: it is not installed (on Debian: apt-get install {_BTOP})"
        if not alone
        else f"{_BTOP} was not measured",
        "resident: with the mapped histograms; own: without shared memory",
        "probes CPU %: what the probes cost the traced processes, of one core, by calibration",
    ]
    return [table]


def without_screen(seconds: float) -> MonitorFigures:
    """Measures the monitor without a screen. Raises StalltopError."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.tracing.headless"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert process.stdout is not None
    try:
        if not select.select([process.stdout], [], [], WAIT_SECONDS)[0]:
            raise StalltopError(f"the monitor printed no window within {WAIT_SECONDS:.0f} s")
        time.sleep(_SETTLE_SECONDS)
        cpu, helpers, memory = _measure(process.pid, seconds)
        output, _ = process.communicate(timeout=30.0)  # closes stdin, which ends the monitor
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    every = [json.loads(line) for line in output.splitlines()]
    windows = every[int(_SETTLE_SECONDS) :]
    if not windows:
        raise StalltopError("the monitor printed no windows", f"exit status {process.returncode}")
    passed = sum(window["seconds"] for window in windows)
    return MonitorFigures(
        cpu,
        *memory,
        helpers,
        calls_per_s=sum(window["calls"] for window in windows) / passed,
        rows=max(window["rows"] for window in windows),
        tenants=max(window["tenants"] for window in windows),
        lost=sum(window["lost"] for window in windows),
        probe_percent=sum(window["probe_percent"] for window in windows) / len(windows),
        kernel_mb=windows[-1]["kernel_bytes"] / 1e6,
        lost_at_start=sum(window["lost"] for window in every) - sum(window["lost"] for window in windows),
        complete_s=_complete_s(every),
    )


def _complete_s(windows: Sequence[Mapping[str, float]]) -> float:
    """Returns after how many seconds nine tenths of all rows were in a window."""
    most = max(window["rows"] for window in windows)
    passed = 0.0
    for window in windows:
        passed += window["seconds"]
        if window["rows"] >= 0.9 * most:
            break
    return passed


def _with_screen(seconds: float, settle: float) -> MonitorFigures:
    return _on_terminal([sys.executable, "-P", "-m", "stalltop", "live"], "LIVE", {}, seconds, settle)


def _btop(folder: Path, seconds: float) -> MonitorFigures:
    return _on_terminal([_BTOP], BTOP_SHOWS, btop_settings(folder, 1.0), seconds, _SETTLE_SECONDS)


def _on_terminal(
    command: Sequence[str], shows: str, environment: Mapping[str, str], seconds: float, settle: float
) -> MonitorFigures:
    """Measures a program that writes the text ``shows`` once it has started, from ``settle`` seconds after
    that on."""
    with OnTerminal(command, environment) as program:
        program.wait_for(shows)
        time.sleep(settle)
        before = program.written_bytes
        began = time.monotonic()
        cpu, helpers, memory = _measure(program.pid, seconds)
        written = (program.written_bytes - before) / (time.monotonic() - began)
        program.leave()
    return MonitorFigures(cpu, *memory, helpers, bytes_per_s=written)


def _measure(pid: int, seconds: float) -> tuple[float, float, tuple[float, float]]:
    """Returns the CPU use of process ``pid`` over ``seconds``, percent of a core, that of its helpers, and
    its memory at the end, MB. Raises StalltopError if the process ends in that time."""
    try:
        helpers = helpers_cpu_ns(pid)
        before, began = cpu_ns(pid), time.monotonic_ns()
        time.sleep(seconds)
        spent, passed = cpu_ns(pid) - before, time.monotonic_ns() - began
        of_helpers = sum(ns - helpers.get(child, 0) for child, ns in helpers_cpu_ns(pid).items())
        return 100.0 * spent / passed, 100.0 * of_helpers / passed, _memory_mb(pid)
    except OSError:
        raise StalltopError("the monitor ended during the measurement") from None


def _memory_mb(pid: int) -> tuple[float, float]:
    """Returns the resident memory of process ``pid``, and the anonymous part of that memory, MB."""
    sizes = {
        name: int(value.split()[0]) * 1024 / 1e6
        for name, _, value in (
            line.partition(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        if name in ("VmRSS", "RssAnon")
    }
    return sizes["VmRSS"], sizes["RssAnon"]
