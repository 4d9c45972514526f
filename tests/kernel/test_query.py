"""Queries of a recording of real tracing find the calls that were made: exact counts, and their time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stalltop.demo.caller import Caller, Made
from stalltop.demo.latencies import Latency
from stalltop.model.window import UNCOUNTED, Window
from stalltop.probes.monitor import Monitor
from stalltop.probes.symbols import demangler
from stalltop.recordings.query.ask import answer
from stalltop.recordings.read.reading import open_file
from tests.kernel.harness import Workplace, wait_until
from tests.kernel.test_kernel_names import ATTENTION, GEMM
from tests.unit.known_calls import write_file
from tests.unit.test_query_answers import LAUNCHES, NCCL

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
    """Else names in the first windows may be mangled."""
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
) -> tuple[list[Window], list[tuple[Caller, dict[str, Made]]]]:
    """Windows of three callers, each in a cgroup of its own, and what they made by their own books."""
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


def test_both_queries_find_what_three_containers_did(
    monitor: Monitor, workplace: Workplace, tmp_path: Path
) -> None:
    for attempt in range(4):
        windows, made = traffic(monitor, workplace)
        path = write_file(tmp_path / f"{attempt}.stalltop", windows)
        names = dict(
            asked(path, "SELECT pid, container_id FROM operations JOIN containers USING (cgroup_id)")
        )
        names = {caller.pid: names[caller.pid] for caller, _ in made}
        assert len(set(names.values())) == len(CYCLES)
        of_kernels = {row[:2]: row[2:] for row in asked(path, LAUNCHES)}
        of_nccl = {row[:2]: row[2:] for row in asked(path, NCCL)}
        close = []
        for (caller, report), cycles in zip(made, CYCLES, strict=True):
            name = names[caller.pid]
            assert of_kernels[name, GEMM][0] == 3 * cycles
            assert of_kernels[name, ATTENTION][0] == 2 * cycles
            total_ms = of_kernels[name, GEMM][1] + of_kernels[name, ATTENTION][1]
            close.append(total_ms == pytest.approx(report[LAUNCH].total_ns / 1e6, rel=0.01))
            for operation, calls in ((REDUCE, cycles), (GATHER, 2 * cycles)):
                counted, mean_ms, most_ms = of_nccl[name, operation]
                assert counted == calls
                close.append(mean_ms * calls == pytest.approx(report[operation].total_ns / 1e6, rel=0.01))
                assert most_ms <= report[operation].max_ns / 1e6
        if all(close):
            return
        # On a crowded machine a call may be held up between the caller's clock and the probe.
    raise AssertionError((of_kernels, of_nccl, [report for _, report in made]))


def asked(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_file(path) as file:
        return list(answer(file, sql, 60).rows)
