"""Healthy programs as cycles of ``demo/native/caller.c``, light enough for a host of two CPUs."""

from __future__ import annotations

import struct
from typing import Final

from bench.faults.stage import STREAM, Place, Stage
from stalltop.demo.caller import Caller
from stalltop.demo.latencies import Latency

_FULL_MIB: Final = 64
"""A limit that page cache fills within a second or two; the programs themselves need a third of it."""
LAUNCH: Final = Latency("spin", "lognormal", 3_000.0, 0.3)
COPY: Final = Latency("spin", "lognormal", 9_000.0, 0.3)


class Speed:
    """How much longer a device's work takes than usual: can be changed while it is used."""

    def __init__(self, stage: Stage) -> None:
        self.path: Final = stage.folder / f"speed-{stage.chance.randrange(1 << 30)}"
        self.path.write_bytes(bytes(4096))

    def slower(self, factor: float) -> None:
        """From now on."""
        with self.path.open("r+b") as file:
            file.write(struct.pack("d", factor))


def device_work(ms: float, how: str = "poll") -> Latency:
    """A synchronize that waits for about ``ms`` of the device's work."""
    return Latency("futex" if how == "futex" else "poll", "lognormal", ms * 1e6, 0.1)


def latencies(sync_ms: float, how: str = "poll") -> dict[str, Latency]:
    """Durations of the functions that healthy programs call."""
    return {
        "cuLaunchKernel": LAUNCH,
        "cuMemcpyHtoDAsync": COPY,
        "cuMemcpyDtoHAsync": COPY,
        "cuMemAllocAsync": LAUNCH,
        "cuMemFreeAsync": LAUNCH,
        "cuStreamSynchronize": device_work(sync_ms, how),
    }


def step(launches: int = 30) -> str:
    """What a step of a training or inference loop calls."""
    return f"cudaMemcpyAsync:1:1048576:1 cudaLaunchKernel:{launches} cudaStreamSynchronize"


def trainer(
    stage: Stage, place: Place, *, before: str = "", compute_ms: float = 1.0, sync_ms: float = 8.0
) -> Caller:
    """A training loop: some work of its own (``before`` and computing), then a step on the device."""
    items = f"{before} !{int(compute_ms * 1e3)} {step()}".strip()
    return stage.process(place, "train.py", items, latencies=latencies(sync_ms))


def loading_trainer(
    stage: Stage, place: Place, worker: str, *, workers: int = 1, sync_ms: float = 8.0
) -> tuple[Caller, list[Caller]]:
    """A training loop that takes its batches from ``workers`` processes, which do ``worker`` for each."""
    made = [
        stage.process(place, "pt_data_worker", f"{worker} @give:batches:{2 * workers}")
        for _ in range(workers)
    ]
    main = trainer(stage, place, before=f"@take:batches:{2 * workers}", compute_ms=0.5, sync_ms=sync_ms)
    return main, made


def disk_victim(stage: Stage) -> tuple[str, Place, str]:
    """A tenant that a disk will be slow for: by whose fault (``neighbour`` or ``limit``), the tenant, and
    what it has to do besides. Its memory may have a limit that its page cache fills: that is no fault."""
    how = stage.one_of("how", ("neighbour", "neighbour", "limit"))
    memory = stage.one_of("memory", ("free", "full"))
    controllers = (*(("blkio",) if how == "limit" else ()), *(("memory",) if memory == "full" else ()))
    victim = stage.tenant("victim", controllers)
    return how, victim, fill_limit(victim) if memory == "full" else ""


def fill_limit(place: Place) -> str:
    """What a tenant with a memory limit does to be at it all the time, as any is that reads more than its
    limit: it streams through a file. Returns the item to do it with."""
    assert place.limits is not None
    place.limits.memory(_FULL_MIB << 20)
    return f"@cached:{STREAM}:262144"


def noise(stage: Stage) -> None:
    """Other tenants that do a little of everything, as on any host."""
    server = stage.tenant("noise-server")
    pause_us = stage.chance.randint(15_000, 40_000)
    stage.process(server, "serve.py", f"{step(8)} ~{pause_us}", latencies=latencies(1.5, "futex"))
    batch = stage.tenant("noise-batch")
    stage.process(batch, "cron", f"!{stage.chance.randint(200, 900)} ~{stage.chance.randint(20_000, 60_000)}")
    stage.process(batch, "logger", f"@cached:load:65536 ~{stage.chance.randint(30_000, 90_000)}")
