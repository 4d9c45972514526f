"""Tests that queries of a recording of real calls return the exact number of calls and their exact time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stalltop.demo.caller import Caller, CallsMade
from stalltop.demo.latencies import Latency
from stalltop.model.window import UNCOUNTED, Window
from stalltop.probes.monitor import Monitor
from stalltop.probes.symbols import demangler
from stalltop.recordings.query.ask import answer
from stalltop.recordings.read.reading import open_file
from tests.kernel.cuda_kernel_names import ATTENTION, GEMM
from tests.kernel.harness import Workplace, wait_until
from tests.queries import LAUNCHES, NCCL
from tests.windows.known_calls import write_file

pytestmark = pytest.mark.beside

CYCLES = (20, 40, 60)
LAUNCH, REDUCE, GATHER = "cudaLaunchKernel", "ncclAllReduce", "ncclAllGather"
ITEMS = f"{LAUNCH}:3:0 {LAUNCH}:2:1 {REDUCE}:1:1024:7 {GATHER}:2:1024:7"
LATENCIES = {
    LAUNCH: Latency("sleep", ns=500_000),
    REDUCE: Latency("spin", ns=1_500_000),
    GATHER: Latency("sleep", "uniform", 300_000, 900_000),
}


@pytest.fixture(autouse=True)
def _wait_for_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let windows wait for the demangler; otherwise the first windows may show mangled names."""
    monkeypatch.setattr(demangler, "WAIT_SECONDS", 30.0)


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    monitor = Monitor()
    try:
        assert monitor.cannot_trace is None, str(monitor.cannot_trace)
        yield monitor
    finally:
        monitor.close()


def traffic(
    monitor: Monitor, workplace: Workplace
) -> tuple[list[Window], list[tuple[Caller, dict[str, CallsMade]]]]:
    """Run three callers, each in its own cgroup.

    Returns the windows that the monitor read, and each caller with its own report of the calls that it made.
    """
    callers = [
        workplace.caller(cgroup=workplace.cgroup(), latencies=LATENCIES, load=f"{LAUNCH} {REDUCE}")
        for _ in CYCLES
    ]
    own = {str(workplace.built.cudart), str(workplace.built.nccl)}

    def traced() -> bool:
        libraries = monitor.read().coverage.libraries
        return {row.path for row in libraries if row.processes >= len(callers)} >= own

    wait_until(traced, what="all callers traced")
    for caller, cycles in zip(callers, CYCLES, strict=True):
        caller.tell(f"run 1 {cycles} {ITEMS}")
    windows = [monitor.read() for _ in range(5)]
    for caller in callers:
        caller.answer()
    windows += [monitor.read() for _ in range(2)]
    assert not any(window.loss[name] for window in windows for name in (*UNCOUNTED, "no_kernel"))
    return windows, [(caller, caller.report()) for caller in callers]


def test_two_queries_find_the_exact_calls_of_three_containers(
    monitor: Monitor, workplace: Workplace, tmp_path: Path
) -> None:
    windows, made = traffic(monitor, workplace)
    path = write_file(tmp_path / "recorded.stalltop", windows)
    names = dict(asked(path, "SELECT pid, container_id FROM operations JOIN containers USING (cgroup_id)"))
    names = {caller.pid: names[caller.pid] for caller, _ in made}
    assert len(set(names.values())) == len(CYCLES)
    of_kernels = {row[:2]: row[2:] for row in asked(path, LAUNCHES)}
    of_nccl = {row[:2]: row[2:] for row in asked(path, NCCL)}
    for (caller, report), cycles in zip(made, CYCLES, strict=True):
        name = names[caller.pid]
        assert of_kernels[name, GEMM][0] == 3 * cycles
        assert of_kernels[name, ATTENTION][0] == 2 * cycles
        total_ms = of_kernels[name, GEMM][1] + of_kernels[name, ATTENTION][1]
        assert total_ms == pytest.approx(counted_ms(windows, caller, LAUNCH))
        assert total_ms <= report[LAUNCH].total_ns / 1e6
        for operation, calls in ((REDUCE, cycles), (GATHER, 2 * cycles)):
            counted, mean_ms, most_ms = of_nccl[name, operation]
            assert counted == calls
            assert mean_ms * calls == pytest.approx(counted_ms(windows, caller, operation))
            assert mean_ms * calls <= report[operation].total_ns / 1e6
            assert most_ms <= report[operation].max_ns / 1e6


def counted_ms(windows: list[Window], caller: Caller, operation: str) -> float:
    """Returns the time, in ms, of the outermost calls of ``operation`` in the windows."""
    return sum(
        int(window.rows.total_ns[place]) / 1e6
        for window in windows
        for place, key in enumerate(window.rows.keys)
        if (key.pid, key.operation) == (caller.pid, operation) and key.outermost
    )


def asked(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_file(path) as file:
        return list(answer(file, sql, 60).rows)
