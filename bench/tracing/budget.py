"""Measures how fast, and how well, the cost of probes is brought within the budget.

Processes launch CUDA kernels at several rates: through the runtime, so that the driver's launch is inside a
traced call, or directly.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.measuring.cpu import cpu_ns
from bench.measuring.figures import FigureColumn, measured
from bench.measuring.table import TextTable
from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.model.window import Window
from stalltop.probes.budget.limits import PROCESS_PERCENT, Budget
from stalltop.probes.budget.planner import NESTED_SECONDS
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions

SUMMARY: Final = "how the cost of probes is kept within the budget, by calls per second"
RATES: Final = (10_000, 100_000, 1_000_000)
_QUIET_RATE: Final = 1_000
_PAUSE_US: Final = 1_000
_WATCHED_SECONDS: Final = 14
"""After the rate has risen, windows are read for this long, 1 s each."""
_LAST_SECONDS: Final = 10
"""Of these, the last ones are what is told of the time after."""
_ALL_THE_HOST: Final = 1e9
_THROUGH: Final = {"runtime": "cudaLaunchKernel", "driver": "cuLaunchKernel"}


@dataclass(slots=True)
class _Second:
    """One window, and what the process itself says of the same time."""

    window: Window
    launches: int
    counted: int
    cpu_ns: int
    seconds: float


def run(built: Built, folder: Path, *, quick: bool) -> list[TextTable]:
    """Measures and returns the table. Raises StalltopError."""
    table = TextTable(
        f"budget: {PROCESS_PERCENT:g} % of a CPU for a process that launches CUDA kernels",
        (
            "launches/s",
            "through",
            "option",
            FigureColumn("made/s", "1/s", "higher"),
            FigureColumn("cost before, %", "%"),
            FigureColumn("after, %", "%"),
            FigureColumn("held after, s", "s"),
            FigureColumn("counted, %", "%", "higher"),
            "told",
        ),
    )
    for rate in RATES[1:2] if quick else RATES:
        for layer in _THROUGH:
            for sample in (False, True):
                print(f"budget: {rate} launches/s through the {layer}, sample {sample}", file=sys.stderr)
                _measure(table, built, rate, layer, sample=sample)
    table.notes += [
        "",
        f"the process first launches {_QUIET_RATE:,} kernels/s for {NESTED_SECONDS:.0f} s, then as many as "
        "in the first column",
        "made/s: launches that it made in the end; it spends its time in probes instead if they cost more",
        "cost: CPU time of the process that is not spent without stalltop, percent of one CPU; before: in",
        "the first three seconds, after: mean of the last ten",
        "held after: seconds until the cost, as the median of three seconds, stays within the budget to the",
        "end; -: it does not",
        "counted: launches that rows have, of those that the process made, in the last ten seconds; both are",
        "read while it makes none",
    ]
    return [table]


def _measure(table: TextTable, built: Built, rate: int, layer: str, *, sample: bool) -> None:
    function = _THROUGH[layer]
    with Caller(built) as caller:
        quiet, busy = (_items(function, per_s) for per_s in (_QUIET_RATE, rate))
        caller.start(busy)
        bare_ns = _ns_of_launch(caller, function, 2.0)
        caller.change(quiet)
        monitor = Monitor(MonitorOptions(budget=Budget(PROCESS_PERCENT, _ALL_THE_HOST, sample)))
        try:
            until = time.monotonic() + NESTED_SECONDS + 2.0
            while time.monotonic() < until:
                time.sleep(1.0)
                monitor.read()
            caller.change(busy)
            monitor.read()
            seconds = [_second(monitor, caller, function) for _ in range(_WATCHED_SECONDS - _LAST_SECONDS)]
            caller.do("finish")
            monitor.read()
            made_before = _launches(caller, function)
            caller.start(busy)
            last = [_second(monitor, caller, function) for _ in range(_LAST_SECONDS)]
            caller.do("finish")
            counted = sum(one.counted for one in last) + _counted(monitor.read(), caller, function)
            made = _launches(caller, function) - made_before
        finally:
            monitor.close()
    seconds += last
    costs = [100.0 * max(one.cpu_ns - one.launches * bare_ns, 0.0) / 1e9 / one.seconds for one in seconds]
    after = sum(costs[-_LAST_SECONDS:]) / _LAST_SECONDS
    held = held_after(costs, PROCESS_PERCENT)
    coverage = last[-1].window.coverage
    told = {f"{one.symbol} {one.text}" for lib in coverage.libraries for one in lib.reduced}
    over = [one.reason for one in coverage.missing if one.cost]
    table.add(
        f"{rate:,}",
        layer,
        "--sample" if sample else "",
        measured(sum(one.launches for one in last) / sum(one.seconds for one in last), ",.0f"),
        measured(sum(costs[:3]) / 3, ".2f"),
        measured(after, ".2f"),
        measured(float(held), ".0f") if held is not None else "-",
        measured(100.0 * counted / made, ".1f"),
        "; ".join((*sorted(told), *over)) or "-",
    )


def held_after(costs: Sequence[float], limit: float) -> int | None:
    """Returns the first second from which on the cost stays within ``limit`` to the end; None if there is
    none. The cost of a second is the median of it and its neighbours: other programs disturb single ones."""
    medians = [statistics.median(costs[max(at - 1, 0) : at + 2]) for at in range(len(costs))]
    above = [at for at, cost in enumerate(medians) if cost > limit]
    held = above[-1] + 1 if above else 0
    return held if held < len(costs) else None


def _items(function: str, per_s: int) -> str:
    """Returns what the process does: some launches, and a pause."""
    return f"{function}:{per_s * _PAUSE_US // 1_000_000} ~{_PAUSE_US}"


def _second(monitor: Monitor, caller: Caller, function: str) -> _Second:
    cpu, launches, began = cpu_ns(caller.pid), _launches(caller, function), time.monotonic()
    time.sleep(1.0)
    window = monitor.read()
    return _Second(
        window,
        _launches(caller, function) - launches,
        _counted(window, caller, function),
        cpu_ns(caller.pid) - cpu,
        time.monotonic() - began,
    )


def _counted(window: Window, caller: Caller, function: str) -> int:
    return sum(
        calls
        for key, calls in zip(window.rows.keys, window.rows.calls.tolist(), strict=True)
        if key.pid == caller.pid and key.operation == function and not key.nested
    )


def _launches(caller: Caller, function: str) -> int:
    made = caller.report().get(function)
    return made.calls if made is not None else 0


def _ns_of_launch(caller: Caller, function: str, seconds: float) -> float:
    """Returns the CPU time that a launch takes now, ns."""
    time.sleep(0.2)
    cpu, launches = cpu_ns(caller.pid), _launches(caller, function)
    time.sleep(seconds)
    return (cpu_ns(caller.pid) - cpu) / max(_launches(caller, function) - launches, 1)
