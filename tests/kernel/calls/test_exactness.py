"""Tests that each of two million calls is counted once, in the right row.

``STALLTOP_EXACT_CALLS=10000000`` makes ten million calls, ``STALLTOP_EXACT_BUDGET=off`` sets no budget.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from stalltop.demo.caller import Caller
from stalltop.demo.latencies import Latency
from stalltop.model.evidence import HOST_GAP, HOST_LAYER
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.window import UNCOUNTED
from stalltop.probes import monitor as monitor_module
from stalltop.probes.budget.limits import Budget
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions
from stalltop.probes.tracer.kernel_side import Attachment, KernelSide, Point, Way
from tests.kernel.calls.window_totals import WindowTotals
from tests.kernel.harness import Workplace, wait_until

pytestmark = pytest.mark.beside

CALLS = int(os.environ.get("STALLTOP_EXACT_CALLS", "2000000"))
CYCLES = CALLS // 80
BUDGET = None if os.environ.get("STALLTOP_EXACT_BUDGET") == "off" else Budget.of_host()
THREADS = (3, 3, 2)
ITEMS = (
    "cudaLaunchKernel cudaLaunchKernel_ptsz cudaMemcpyAsync:1:4096:1 cuLaunchKernel_ptsz "
    "cuMemcpyHtoDAsync_v2:1:1000 cuMemcpyHtoDAsync_v2_ptsz:1:24 cuStreamSynchronize"
)
A_CYCLE = {
    # (operation, nested): (calls, bytes) of one cycle of ITEMS. Nested: driver calls made by runtime calls.
    ("cudaLaunchKernel", False): (2, 0),
    ("cudaMemcpyAsync HtoD", False): (1, 4096),
    ("cuLaunchKernel", True): (2, 0),
    ("cuMemcpyHtoDAsync", True): (1, 4096),
    ("cuLaunchKernel", False): (1, 0),
    ("cuMemcpyHtoDAsync", False): (2, 1024),
    ("cuStreamSynchronize", False): (1, 0),
}
TRACED = {operation.split()[0] for operation, _ in A_CYCLE} | {"cudaStreamSynchronize"}


class FewFunctions(KernelSide):
    """Probes only the functions that this test calls, since the Linux kernel takes long to remove perf
    events."""

    def attach(self, path: str, points: Sequence[Point]) -> Attachment:
        traced = {function.id for function in self.functions if function.symbol in TRACED}
        return super().attach(path, [point for point in points if point.cookie in traced])


@pytest.fixture(params=["multi", pytest.param("perf", marks=pytest.mark.perf)])
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[WindowTotals]:
    way: Way = request.param
    if way == "perf":
        monkeypatch.setattr(monitor_module, "KernelSide", FewFunctions)
    monitor = Monitor(MonitorOptions(attach=way, budget=BUDGET))
    try:
        assert monitor.cannot_trace is None, str(monitor.cannot_trace)
        yield WindowTotals(monitor)
    finally:
        monitor.close()


def start(
    workplace: Workplace, told: WindowTotals, n: int, latencies: dict[str, Latency] | None = None
) -> list[Caller]:
    """Start callers in ``n`` cgroups and wait until they are traced, before their first call."""
    callers = [
        workplace.caller(
            cgroup=workplace.cgroup(),
            latencies=latencies,
            load="cudaLaunchKernel cuLaunchKernel",
            name=f"caller{i}",
        )
        for i in range(n)
    ]

    own = {str(workplace.built.cudart), str(workplace.built.cuda)}

    def traced() -> bool:
        libraries = told.read().coverage.libraries
        return {row.path for row in libraries if row.processes >= n} >= own

    wait_until(traced, what="all callers traced")
    return callers


def test_millions_of_calls_are_counted_exactly(told: WindowTotals, workplace: Workplace) -> None:
    callers = start(workplace, told, len(THREADS))
    for caller, threads in zip(callers, THREADS, strict=True):
        caller.tell(f"burst {threads} {CYCLES} {ITEMS}")
    expected = {
        (caller.pid, operation, nested): (threads * CYCLES * calls, threads * CYCLES * size)
        for caller, threads in zip(callers, THREADS, strict=True)
        for (operation, nested), (calls, size) in A_CYCLE.items()
    }
    assert sum(calls for calls, _ in expected.values()) == CALLS
    wait_until(lambda: told.read().rows.calls.any(), what="calls counted while they are made")
    for _ in range(20):
        told.read()
    for caller in callers:
        caller.answer(CALLS / 20_000)
    told.read()
    pids = {caller.pid for caller in callers}
    gaps = {key.pid: calls for key, calls in told.calls.items() if key.operation == HOST_GAP}
    own = {key: calls for key, calls in told.calls.items() if key.pid in pids and key.layer != HOST_LAYER}
    found = {(key.pid, key.operation, key.nested): (calls, told.bytes[key]) for key, calls in own.items()}
    assert found == expected
    # Gaps lie between calls, so a thread has one gap fewer than outermost calls.
    outermost = {
        pid: sum(calls for (own, _, nested), (calls, _) in expected.items() if own == pid and not nested)
        for pid in pids
    }
    assert {pid: gaps[pid] for pid in pids} == {
        caller.pid: outermost[caller.pid] - threads for caller, threads in zip(callers, THREADS, strict=True)
    }
    assert len({key.tenant for key in own}) == len(THREADS)
    assert {key.process for key in own} == {f"caller{i}" for i in range(len(THREADS))}
    assert {name: count for name, count in told.loss.items() if name in UNCOUNTED and count} == {}


def test_percentiles_match_the_callers_clock(told: WindowTotals, workplace: Workplace) -> None:
    latencies = {"cuStreamSynchronize": Latency("spin", "lognormal", 60_000, 0.5)}
    percents = [50.0, 95.0, 99.0]
    (caller,) = start(workplace, told, 1, latencies)
    caller.run("cuStreamSynchronize", cycles=3000)
    told.read()
    own = [item for item in told.histograms.items() if item[0].pid == caller.pid and item[0].outermost]
    ((key, parts),) = own
    counted = Histograms.concatenate(parts).grouped(np.zeros(len(parts), np.int64), 1)
    exact = caller.report()["cuStreamSynchronize"].histogram()
    assert (key.operation, counted.totals().tolist()) == ("cuStreamSynchronize", [3000])
    assert exact.totals().tolist() == [3000]
    measured = counted.percentiles(percents)[0]
    # The caller's clock includes the time of the probes, the measured durations do not. A bucket of the
    # histogram is 0.8 % wide.
    assert (measured <= exact.percentiles(percents)[0] * 1.008).all()
    probe_ns = told.monitor.read().coverage.probe_ns
    assert probe_ns > 0
    # Up to 15 of the 3000 calls (0.5 %) may be delayed between the reading of the caller's clock and the
    # probe.
    least = exact.percentiles([percent - 0.5 for percent in percents])[0]
    assert (measured >= least * 0.984 - 3 * probe_ns).all(), (measured, least, probe_ns)
