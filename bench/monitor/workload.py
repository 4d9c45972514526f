"""Describes the load of the benchmarks: containers whose processes call forty different operations each, at a
chosen total rate."""

from __future__ import annotations

from typing import Final

from stalltop.demo.latencies import Latency
from stalltop.demo.scenario import ProcessPlan, Scenario, TenantPlan

TENANTS: Final = 10
OPERATIONS: Final = 40
"""Number of different operations of each tenant. Each operation is a row."""

# Forty operations: twelve runtime functions and the twelve driver functions that they call, ten driver
# functions that the program calls directly, and six collectives. A collective makes its launch with one of
# these driver functions.
_RUNTIME: Final = (
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaGraphLaunch",
    "cudaMalloc:1:4096",
    "cudaFree",
    "cudaMallocAsync:1:65536",
    "cudaFreeAsync",
    "cudaMemcpyAsync:1:1048576:1",
    "cudaMemcpy:1:4096:2",
    "cudaMemsetAsync:1:4096",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
)
_NCCL: Final = (
    "ncclAllReduce:1:1024:7",
    "ncclReduce:1:1024:7",
    "ncclReduceScatter:1:1024:7",
    "ncclAllGather:1:1024:7",
    "ncclBroadcast:1:1024:7",
    "ncclSend:1:1024:7",
)
_DRIVER: Final = (
    "cuLaunchKernel",
    "cuMemAllocHost_v2:1:4096",
    "cuMemFreeHost",
    "cuMemcpyDtoDAsync_v2:1:65536",
    "cuMemcpyHtoD_v2:1:4096",
    "cuStreamWaitEvent",
    "cuMemCreate:1:65536",
    "cuMemMap:1:65536",
    "cuCtxSynchronize",
    "cuGraphLaunch",
)
CALLS: Final = 2 * len(_RUNTIME) + 2 * len(_NCCL) + len(_DRIVER)
"""Traced calls per cycle."""
CALL_NS: Final = 2500
"""Approximate time of a traced call, including its probes, ns."""
_SHORTEST_PAUSE_US: Final = 500


def scenario(calls_per_s: float, tenants: int = TENANTS, processes: int = TENANTS) -> Scenario:
    """Returns ``tenants`` that have ``processes`` in all, which together make about ``calls_per_s`` traced
    calls per second, including nested ones."""
    cycles_per_s = calls_per_s / processes / CALLS
    repeats = 1
    while (pause := _pause_us(cycles_per_s, repeats)) < _SHORTEST_PAUSE_US and repeats < 64:
        repeats *= 2
    names = (*_RUNTIME, *_NCCL, *_DRIVER)
    items = [_repeated(item, repeats) for item in names]
    cycle = " ".join([*items, f"~{max(pause, _SHORTEST_PAUSE_US)}"])
    # Durations vary as widely as real ones, so that every histogram uses many counters.
    latency = Latency("spin", "lognormal", 300.0, 1.0)
    latencies = {item.partition(":")[0].removesuffix("_v2"): latency for item in names}
    plans: list[list[ProcessPlan]] = [[] for _ in range(tenants)]
    for number in range(processes):
        plans[number % tenants].append(ProcessPlan(f"worker-{number}", cycle))
    return Scenario(
        "bench",
        "the load of the benchmark",
        tuple(
            TenantPlan(f"tenant-{number}", "docker", tuple(plan), latencies)
            for number, plan in enumerate(plans)
        ),
    )


def _pause_us(cycles_per_s: float, repeats: int) -> int:
    """Returns how long a process must pause, us, each time after it has made all calls ``repeats`` times, so
    that it makes all calls ``cycles_per_s`` times per second."""
    return int(repeats * (1e6 / cycles_per_s - CALLS * CALL_NS / 1e3))


def _repeated(item: str, repeats: int) -> str:
    symbol, _, rest = item.partition(":")
    _, _, sizes = rest.partition(":")
    return f"{symbol}:{repeats}:{sizes}" if sizes else f"{symbol}:{repeats}"
