"""Describes healthy programs as cycles of ``demo/native/caller/caller.c``, light enough for a host with two
CPUs."""

from __future__ import annotations

import struct
from typing import Final

from bench.faults.stage.stage import STREAM, Place, Stage
from stalltop.demo.caller import Caller
from stalltop.demo.latencies import Latency

_FULL_MIB: Final = 64
"""A memory limit that the page cache fills within a second or two. The program itself needs a third of that
memory."""
LAUNCH: Final = Latency("spin", "lognormal", 3_000.0, 0.3)
COPY: Final = Latency("spin", "lognormal", 9_000.0, 0.3)


class Speed:
    """A file with a factor for the duration of stand-in functions (`demo.latencies.Latency.path`). Changing
    the factor slows device work down while programs run."""

    def __init__(self, stage: Stage) -> None:
        self.path: Final = stage.folder / f"speed-{stage.chance.randrange(1 << 30)}"
        self.path.write_bytes(bytes(4096))

    def slower(self, factor: float) -> None:
        """Makes device work take ``factor`` times as long from now on."""
        with self.path.open("r+b") as file:
            file.write(struct.pack("d", factor))


def device_work(ms: float, how: str = "poll") -> Latency:
    """Returns the latency of a synchronization that waits for about ``ms`` of device work."""
    return Latency("futex" if how == "futex" else "poll", "lognormal", ms * 1e6, 0.1)


def latencies(sync_ms: float, how: str = "poll") -> dict[str, Latency]:
    """Returns the durations of the functions that healthy programs call; a synchronization waits for about
    ``sync_ms`` of device work."""
    return {
        "cuLaunchKernel": LAUNCH,
        "cuMemcpyHtoDAsync": COPY,
        "cuMemcpyDtoHAsync": COPY,
        "cuMemAllocAsync": LAUNCH,
        "cuMemFreeAsync": LAUNCH,
        "cuStreamSynchronize": device_work(sync_ms, how),
    }


def step(launches: int = 30) -> str:
    """Returns the calls of one step of a training or inference loop."""
    return f"cudaMemcpyAsync:1:1048576:1 cudaLaunchKernel:{launches} cudaStreamSynchronize"


def trainer(
    stage: Stage, place: Place, *, before: str = "", compute_ms: float = 1.0, sync_ms: float = 8.0
) -> Caller:
    """Starts a process with a training loop. Each cycle runs the items ``before``, computes on the CPU for
    ``compute_ms``, and makes a step on the device."""
    items = f"{before} !{int(compute_ms * 1e3)} {step()}".strip()
    return stage.process(place, "train.py", items, latencies=latencies(sync_ms))


def steps_of(caller: Caller) -> int:
    """Returns the number of steps that a training loop has made, as the process counts them itself."""
    return sum(
        made.calls for symbol, made in caller.report().items() if symbol.startswith("cudaStreamSynchronize")
    )


def loading_trainer(
    stage: Stage, place: Place, worker: str, *, workers: int = 1, sync_ms: float = 8.0
) -> tuple[Caller, list[Caller]]:
    """Starts a training loop that takes its batches from ``workers`` worker processes. A worker runs the
    items ``worker`` for each batch. Returns the training process and the workers."""
    made = [
        stage.process(place, "pt_data_worker", f"{worker} @give:batches:{2 * workers}")
        for _ in range(workers)
    ]
    main = trainer(stage, place, before=f"@take:batches:{2 * workers}", compute_ms=0.5, sync_ms=sync_ms)
    return main, made


def disk_victim(stage: Stage) -> tuple[str, Place, str]:
    """Makes a tenant that is to be slowed down by a disk. Returns the means (``neighbour``: another tenant
    loads the disk; ``limit``: the tenant's own I/O limit), the tenant, and items that its processes must run
    in addition ('' if none).

    By chance, the tenant has a memory limit that its page cache fills, which is not a fault.
    """
    how = stage.one_of("how", ("neighbour", "neighbour", "limit"))
    memory = stage.one_of("memory", ("free", "full"))
    controllers = (*(("blkio",) if how == "limit" else ()), *(("memory",) if memory == "full" else ()))
    victim = stage.tenant("victim", controllers)
    return how, victim, fill_limit(victim) if memory == "full" else ""


def fill_limit(place: Place) -> str:
    """Gives a tenant a memory limit, and returns the item that keeps its page cache at this limit, by reading
    a file that is larger than the limit again and again."""
    assert place.limits is not None
    place.limits.memory(_FULL_MIB << 20)
    return f"@cached:{STREAM}:262144"


def noise(stage: Stage) -> None:
    """Starts further, healthy tenants that use a little of the GPU, CPU and disk, as there are on any
    host."""
    server = stage.tenant("noise-server")
    pause_us = stage.chance.randint(15_000, 40_000)
    stage.process(server, "serve.py", f"{step(8)} ~{pause_us}", latencies=latencies(1.5, "futex"))
    batch = stage.tenant("noise-batch")
    stage.process(batch, "cron", f"!{stage.chance.randint(200, 900)} ~{stage.chance.randint(20_000, 60_000)}")
    stage.process(batch, "logger", f"@cached:load:65536 ~{stage.chance.randint(30_000, 90_000)}")
