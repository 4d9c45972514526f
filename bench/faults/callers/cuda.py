"""Faults of programs that use CUDA badly: by the functions they call, the number of calls, or the sizes."""

from __future__ import annotations

from collections.abc import Iterator

from bench.faults.stage.fault import Truth, fault
from bench.faults.stage.stage import Stage
from bench.faults.stage.workloads import latencies, step
from stalltop.demo.caller import Caller
from stalltop.demo.latencies import Latency

_SLOW = {
    **latencies(8),
    "cuMemAlloc": Latency("futex", "lognormal", 250_000.0, 0.4),
    "cuMemFree": Latency("futex", "lognormal", 350_000.0, 0.4),
    "cuMemcpyHtoD": Latency("spin", "lognormal", 5_000_000.0, 0.2),
    "cuMemCreate": Latency("futex", "lognormal", 300_000.0, 0.4),
    "cuMemMap": Latency("futex", "lognormal", 100_000.0, 0.3),
    "cuMemSetAccess": Latency("futex", "lognormal", 150_000.0, 0.4),
    "cuMemUnmap": Latency("futex", "lognormal", 200_000.0, 0.4),
    "cuMemRelease": Latency("futex", "lognormal", 150_000.0, 0.4),
    "cuModuleLoadData": Latency("spin", "lognormal", 90_000_000.0, 0.4),
    "cuGraphInstantiateWithParams": Latency("spin", "lognormal", 6_000_000.0, 0.3),
    "cuGraphLaunch": Latency("spin", "lognormal", 20_000.0, 0.3),
    "cuStreamBeginCapture": Latency("spin", "lognormal", 10_000.0, 0.3),
    "cuStreamEndCapture": Latency("spin", "lognormal", 300_000.0, 0.3),
    "cuEventSynchronize": Latency("poll", "lognormal", 60_000.0, 0.3),
}
_HEALTHY = f"!800 {step()}"


def _victim(stage: Stage) -> tuple[Truth, Caller]:
    victim = stage.tenant("victim")
    return Truth(victim), stage.process(victim, "train.py", _HEALTHY, latencies=_SLOW)


@fault("allocation_storm")
def allocation_storm(stage: Stage) -> Iterator[Truth]:
    """The program allocates and frees memory in every step."""
    truth, caller = _victim(stage)
    count = stage.whole("allocations", 4, 16)
    yield truth
    caller.change(f"!800 cudaMalloc:{count}:33554432 {step()} cudaFree:{count}")


@fault("memory_leak", watch_seconds=40.0)
def memory_leak(stage: Stage) -> Iterator[Truth]:
    """The program allocates more memory in every step than it frees."""
    truth, caller = _victim(stage)
    size = stage.whole("leaked_bytes", 1 << 20, 8 << 20)
    yield truth
    caller.change(f"!800 cudaMallocAsync:2:{size} {step()} cudaFreeAsync:1 ~20000")


@fault("memory_churn")
def memory_churn(stage: Stage) -> Iterator[Truth]:
    """The program maps and unmaps address ranges in every step."""
    truth, caller = _victim(stage)
    count = stage.whole("ranges", 3, 8)
    size = 2 << 20
    made = f"cuMemCreate:{count}:{size} cuMemMap:{count}:{size} cuMemSetAccess:{count}:{size}"
    yield truth
    caller.change(f"!800 {made} {step()} cuMemUnmap:{count}:{size} cuMemRelease:{count}")


@fault("pageable_copies")
def pageable_copies(stage: Stage) -> Iterator[Truth]:
    """The program copies batches from pageable memory, and waits for each copy."""
    truth, caller = _victim(stage)
    count = stage.whole("copies", 1, 4)
    yield truth
    caller.change(f"!800 cudaMemcpy:{count}:{stage.whole('mib', 16, 32) << 20}:1 {step()}")


@fault("small_copies")
def small_copies(stage: Stage) -> Iterator[Truth]:
    """The program makes 500 to 2000 copies of 4 to 2048 bytes in every step."""
    truth, caller = _victim(stage)
    count = stage.whole("copies", 500, 2000)
    yield truth
    caller.change(f"!800 cudaMemcpyAsync:{count}:{stage.whole('bytes', 4, 2048)}:1 {step()}")


@fault("sync_storm")
def sync_storm(stage: Stage) -> Iterator[Truth]:
    """The program waits for the device after every CUDA kernel."""
    truth, caller = _victim(stage)
    yield truth
    caller.change("!20 cudaLaunchKernel cudaEventSynchronize")


@fault("launch_bound")
def launch_bound(stage: Stage) -> Iterator[Truth]:
    """The program launches thousands of CUDA kernels that are shorter than their launch."""
    truth, caller = _victim(stage)
    count = stage.whole("launches", 2000, 6000)
    yield truth
    caller.change(f"!200 cudaLaunchKernel:{count} cudaEventSynchronize")


@fault("cold_start")
def cold_start(stage: Stage) -> Iterator[Truth]:
    """A new process loads its modules in its first calls."""
    truth, _ = _victim(stage)
    assert truth.victim is not None
    late = stage.process(truth.victim, "serve.py", latencies=_SLOW)
    loads = stage.whole("modules", 20, 60)
    yield truth
    late.start(f"cuModuleLoadData:{loads} {step()}")


@fault("graph_recapture")
def graph_recapture(stage: Stage) -> Iterator[Truth]:
    """The program captures and instantiates a new graph for every launch, instead of launching one graph
    again."""
    truth, caller = _victim(stage)
    kernels = stage.whole("kernels", 20, 60)
    yield truth
    caller.change(
        f"!500 cudaStreamBeginCapture cudaLaunchKernel:{kernels} cudaStreamEndCapture cudaGraphInstantiate "
        "cudaGraphLaunch cudaStreamSynchronize"
    )


@fault("graph_unlaunched", watch_seconds=75.0)
def graph_unlaunched(stage: Stage) -> Iterator[Truth]:
    """The program captures and instantiates graphs, but launches CUDA kernels one by one."""
    truth, caller = _victim(stage)
    yield truth
    caller.change(
        f"!500 cudaStreamBeginCapture cudaLaunchKernel:20 cudaStreamEndCapture cudaGraphInstantiate {step()}"
    )


@fault("hung_call", watch_seconds=16.0)
def hung_call(stage: Stage) -> Iterator[Truth]:
    """A wait for the device does not return."""
    victim = stage.tenant("victim")
    stage.process(victim, "train.py", _HEALTHY, latencies=_SLOW)
    hold = stage.folder / f"hold-{victim.identity}"
    hold.touch()
    stuck = stage.process(
        victim,
        "infer.py",
        _HEALTHY,
        latencies={**_SLOW, "cuCtxSynchronize": Latency("hold", path=hold)},
    )
    yield Truth(victim)
    stuck.start("cudaDeviceSynchronize")
