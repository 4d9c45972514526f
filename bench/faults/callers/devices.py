"""Faults of a device. The stand-in NVML reports the faults as the driver would. If a fault slows programs
down, the stand-in CUDA functions really take longer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.faults.stage.fault import Truth, fault
from bench.faults.stage.stage import Place, Stage
from bench.faults.stage.workloads import Speed, latencies, step
from stalltop.demo.caller import Caller
from stalltop.demo.latencies import Latency

_MAX_MHZ: Final = 1980
_GIB: Final = 1 << 30


def _user(stage: Stage, name: str, speed: Path, *, sync_ms: float = 6.0) -> tuple[Place, Caller]:
    """Starts a tenant that waits for the device in every step. The factor in the file ``speed`` scales these
    waits (see `Speed`). Returns the tenant and its process."""
    place = stage.tenant(name)
    durations = latencies(sync_ms)
    durations["cuStreamSynchronize"] = replace(durations["cuStreamSynchronize"], path=speed)
    return place, stage.process(place, "train.py", f"!800 {step()}", latencies=durations)


def _slowed(stage: Stage, reasons: int, lowest: float, highest: float, **shown: str | int) -> Iterator[Truth]:
    """Lowers the clocks to a random part of their maximum, and makes device work take longer in the same
    proportion."""
    speed = Speed(stage)
    _user(stage, "user", speed.path)
    part = stage.between("clocks", lowest, highest)
    yield Truth(None)
    speed.slower(1 / part)
    stage.device.show(reasons=reasons, sm_clock=int(part * _MAX_MHZ), utilization=97, **shown)


@fault("gpu_power")
def gpu_power(stage: Stage) -> Iterator[Truth]:
    """The power cap lowers the clocks."""
    return _slowed(stage, 0x4, 0.5, 0.85, power=699_000, power_violation="600000000/s")


@fault("gpu_thermal")
def gpu_thermal(stage: Stage) -> Iterator[Truth]:
    """Heat lowers the clocks."""
    return _slowed(stage, 0x20 | 0x40, 0.4, 0.8, temperature=92, thermal_violation="700000000/s")


@fault("gpu_hardware_slowdown")
def gpu_hardware_slowdown(stage: Stage) -> Iterator[Truth]:
    """The power brake lowers the clocks."""
    return _slowed(stage, 0x8 | 0x80, 0.3, 0.6)


@fault("gpu_clocks")
def gpu_clocks(stage: Stage) -> Iterator[Truth]:
    """The clocks are low, and the driver gives no reason."""
    return _slowed(stage, 0, 0.3, 0.6)


@fault("gpu_ecc")
def gpu_ecc(stage: Stage) -> Iterator[Truth]:
    """The device has uncorrectable memory errors."""
    _user(stage, "user", Speed(stage).path)
    yield Truth(None)
    stage.device.show(ecc_uncorrected=stage.whole("errors", 1, 5), remap_pending=1)


@fault("gpu_xid")
def gpu_xid(stage: Stage) -> Iterator[Truth]:
    """The driver reports an XID."""
    _user(stage, "user", Speed(stage).path)
    yield Truth(None)
    stage.device.show(xids=stage.chance.choice((31, 48, 63, 74, 94)))


@fault("gpu_lost")
def gpu_lost(stage: Stage) -> Iterator[Truth]:
    """The device no longer answers."""
    _user(stage, "user", Speed(stage).path)
    yield Truth(None)
    stage.device.show(lost=1)


@fault("pcie_link")
def pcie_link(stage: Stage) -> Iterator[Truth]:
    """The device's PCIe link trains with fewer lanes, or at a lower generation."""
    _user(stage, "user", Speed(stage).path)
    yield Truth(None)
    if stage.one_of("how", ("lanes", "generation")) == "lanes":
        stage.device.show(link_width=stage.chance.choice((2, 4, 8)))
    else:
        stage.device.show(link_generation=stage.chance.choice((1, 2, 3)))


@fault("pcie_replays")
def pcie_replays(stage: Stage) -> Iterator[Truth]:
    """The device's PCIe link sends many packets again every second."""
    _user(stage, "user", Speed(stage).path)
    yield Truth(None)
    stage.device.show(replays=f"{stage.whole('replays_per_s', 20, 500)}/s")


@fault("gpu_memory_full")
def gpu_memory_full(stage: Stage) -> Iterator[Truth]:
    """Another tenant takes the rest of the device's memory, and allocations fail."""
    victim, other = stage.tenant("victim"), stage.tenant("other")
    failing = {**latencies(6), "cuMemAlloc": Latency("futex", ns=3e5, error_share=0.5, error_code=2)}
    caller = stage.process(victim, "serve.py", f"!800 {step()}", latencies=failing)
    holder = stage.process(other, "notebook", f"{step(2)} ~50000", latencies=latencies(2))
    used = 78 * _GIB + stage.whole("used_mib", 500, 1900) * (1 << 20)
    yield Truth(victim, other)
    stage.device.show(memory_used=used, compute=f"{caller.pid}:{10 * _GIB},{holder.pid}:{used - 10 * _GIB}")
    caller.change(f"!800 cudaMalloc:1:2147483648 {step()} cudaFree ~20000")


@fault("gpu_neighbours", healthy_seconds=36.0, watch_seconds=10.0)
def gpu_neighbours(stage: Stage) -> Iterator[Truth]:
    """Another tenant begins to use the same device, and device work takes longer."""
    speed = Speed(stage)
    victim, caller = _user(stage, "victim", speed.path)
    other = stage.tenant("neighbour")
    neighbour = stage.process(other, "batch", latencies=latencies(10))
    stage.device.show(compute=f"{caller.pid}:{10 * _GIB},{neighbour.pid}:{10 * _GIB}")
    yield Truth(victim, other)
    neighbour.start(f"!300 {step(60)}")
    speed.slower(stage.between("slower", 1.8, 3.0))
