"""Tests that the monitor reports captured calls with tenants, times and readable arguments."""

from __future__ import annotations

import pytest

from stalltop.demo.latencies import Latency
from stalltop.model.calls import CapturedCall
from stalltop.probes.monitor import Monitor
from tests.kernel.harness import Workplace, wait_until
from tests.kernel.processes.watched import WatchedMonitor

pytestmark = pytest.mark.beside

SPIN_NS = 3_000_000


def test_calls_of_two_tenants_are_captured_with_their_arguments(workplace: Workplace) -> None:
    latencies = {
        name: Latency("spin", ns=SPIN_NS)
        for name in ("cudaMemcpyAsync", "cuStreamSynchronize", "cudaLaunchKernel")
    }
    monitor = Monitor()
    try:
        watched = WatchedMonitor(monitor)
        callers = [
            workplace.caller(
                cgroup=workplace.cgroup(), latencies=latencies, load="cudaLaunchKernel cuStreamSynchronize"
            )
            for _ in range(2)
        ]
        kept: dict[int, list[CapturedCall]] = {}
        rows = set[tuple[object, ...]]()

        def all_kept() -> bool:
            for caller in callers:
                caller.run("cudaMemcpyAsync:1:4096:1 cuStreamSynchronize cudaLaunchKernel", cycles=1)
            window = watched.read()
            rows.update(key[1:] for key in window.rows.keys)
            for call in window.calls.kept:
                assert window.start * 1e9 - 1e6 <= call.start_ns + call.duration_ns <= window.end * 1e9 + 1e6
                kept.setdefault(call.pid, []).append(call)
                assert call.row in rows
            return all(
                {("cudaMemcpyAsync HtoD", False), ("cuStreamSynchronize", False), ("cudaLaunchKernel", False)}
                <= {(call.operation, call.nested) for call in kept.get(caller.pid, ())}
                for caller in callers
            )

        wait_until(all_kept, what="a captured call of every operation of both callers")
    finally:
        monitor.close()
    assert len({call.tenant for caller in callers for call in kept[caller.pid]}) == 2
    for caller in callers:
        of = {call.operation: call for call in kept[caller.pid]}
        copy = of["cudaMemcpyAsync HtoD"]
        assert copy.bytes == 4096
        assert copy.arguments.startswith("copy=HtoD to=0x")
        assert of["cuStreamSynchronize"].arguments.startswith("stream=0x")
        assert of["cudaLaunchKernel"].arguments.startswith("grid=")
        assert all(call.returned == 0 for call in of.values())
        assert all(call.split_ns and sum(call.split_ns) == call.duration_ns for call in kept[caller.pid])
