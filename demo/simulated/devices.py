"""Generates the devices of the simulated host, the processes on them, the times at which tenants used them,
and the devices that the Kubernetes scheduler gave to pods."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, Final

import numpy as np

from stalltop.demo.simulated.host import Plot
from stalltop.model.devices.activity import ReportedActivity, reported_activity
from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Device, DeviceProcess, Devices, MigInstance
from stalltop.model.devices.labels import label_of
from stalltop.model.evidence import HOST_LAYER
from stalltop.model.tenant import Tenant
from stalltop.model.window import Rows

_TOTAL_BYTES: Final = 80 << 30
_TICK_NS: Final = 1 << 20
_STEP_TICKS: Final = 40
"""Length of the shortest step of a simulated program, in ticks of ``_TICK_NS``."""
_OTHERS: Final[dict[str, Any]] = {
    "pcie_generation": 5,
    "pcie_generation_max": 5,
    "pcie_width": 16,
    "pcie_width_max": 16,
    "performance_state": 0,
    "persistence": True,
    "compute_mode": "default",
    "virtualization": "none",
    "memory_clock_mhz": 2619,
    "memory_clock_max_mhz": 2619,
    "power_limit_default_watts": 700.0,
    "power_limit_max_watts": 700.0,
    "slowdown_celsius": 80.0,
    "shutdown_celsius": 95.0,
    "nvlinks": 18,
    "nvlinks_active": 18,
    "ecc": True,
    "remap_pending": False,
    "remap_failed": False,
    **dict.fromkeys(("remapped_corrected", "remapped_uncorrected", "ecc_uncorrected_lifetime"), 0),
    **dict.fromkeys(("ecc_corrected", "ecc_uncorrected", "pcie_replays", "nvlink_errors"), 0),
    "ecc_corrected_lifetime": 3,
}
"""Figures of a device that stay constant during the simulation."""
_THROTTLED_FROM: Final = 80.0
"""Temperature in degrees Celsius above which heat throttles the clocks."""
_SERVER: Final = DeviceProcess(3_907, "C", 30 << 20, process="nvidia-cuda-mps")
"""The MPS server. Its name, ``nvidia-cuda-mps-server``, is cut to 15 characters, as the Linux kernel cuts
names."""


def simulated_devices(
    age: float,
    plot: Plot,
    holders: Collection[tuple[int, str, str]],
    random: np.random.Generator,
    *,
    hot: bool = False,
    starved: bool = False,
) -> Devices:
    """Returns the devices as they are ``age`` seconds after the start. ``holders`` are the processes on them,
    as (PID, tenant id, label of the device). ``hot`` says whether heat throttles the first device,
    ``starved`` whether its programs lack CPU time or data."""
    devices = []
    for index in range(plot.gpus):
        wave = 0.5 + 0.5 * math.sin(2 * math.pi * (age / 37 + index / 3))
        steady = 70 + 25 * wave
        busy = min(100.0, max(0.0, steady + float(random.normal(0, 2))))
        celsius = 58 + 0.24 * steady  # a heat sink evens out what changes within seconds
        if starved and index == 0:
            busy, celsius = 0.5 * busy, celsius - 12
        held = hot and index == 0
        if held:
            busy, celsius = max(busy, 94.0), 88.0
        elif not plot.restless:
            celsius = min(celsius, 76.0)
        throttled = celsius > _THROTTLED_FROM
        divided = bool(plot.profiles) and index == 0
        here = sorted((pid, who) for pid, who, label in holders if label == str(index))
        each = int(_TOTAL_BYTES * 0.8 / max(len(here), 1))
        kind = "M+C" if plot.mps else "C"
        processes = [DeviceProcess(pid, kind, each, who) for pid, who in here]
        devices.append(
            Device(
                index=index,
                uuid=uuid(index),
                name="Simulated 80GB",
                # The driver reports no utilization of a GPU that is divided.
                utilization_percent=None if divided else round(busy),
                memory_utilization_percent=None if divided else round(busy * 0.55),
                memory_used_bytes=_TOTAL_BYTES * 6 // 10 if divided else each * len(here),
                memory_total_bytes=_TOTAL_BYTES,
                power_watts=round(180 + 4.6 * busy, 1),
                power_limit_watts=700.0,
                temperature_celsius=round(celsius),
                sm_clock_mhz=1110 if held else 1755 if throttled else 1980,
                sm_clock_max_mhz=1980,
                throttle_reasons=("thermal, software",) if throttled else (),
                processes=(*([_SERVER] if plot.mps else []), *processes),
                mig=divided,
                instances=_instances(plot, holders) if divided else (),
                **_OTHERS,
                pci_bus_id=f"00000000:{0x1B + 0x20 * index:02X}:00.0",
                minor=index,
                sm_active_percent=round(busy * 0.82),
                sm_occupancy_percent=round(busy * 0.31),
                tensor_percent=round(busy * 0.4),
                dram_percent=round(busy * 0.45),
                memory_temperature_celsius=round(celsius + 9),
                pcie_rx_bytes_per_second=int(busy * 2.1e7),
                pcie_tx_bytes_per_second=int(busy * 3e6),
            )
        )
    return Devices(tuple(devices), driver="simulated")


def _instances(plot: Plot, holders: Collection[tuple[int, str, str]]) -> tuple[MigInstance, ...]:
    """Returns the MIG instances of the first device, with the processes on them."""
    found = []
    for number, profile in enumerate(plot.profiles):
        total = int(profile.rpartition(".")[2].removesuffix("gb")) << 30
        here = sorted((pid, who) for pid, who, label in holders if label == label_of(0, number))
        each = int(total * 0.7 / max(len(here), 1))
        processes = (
            DeviceProcess(pid, "C", each, who, gpu_instance=number + 1, compute_instance=0)
            for pid, who in here
        )
        found.append(
            MigInstance(
                0,
                number,
                f"MIG-00000000-0000-0000-0000-00000000000{number}",
                profile,
                gpu_instance=number + 1,
                compute_instance=0,
                memory_used_bytes=each * len(here),
                memory_total_bytes=total,
                processes=tuple(processes),
            )
        )
    return tuple(found)


def uuid(index: int) -> str:
    """Returns the UUID of device number ``index``."""
    return f"GPU-00000000-0000-0000-0000-00000000000{index}"


def allocations(plot: Plot, tenants: Iterable[Tenant]) -> tuple[Allocation, ...]:
    """Returns the devices that pods were given if they share devices through MPS: for each pod, a replica of
    the first device. Returns an empty tuple if they do not."""
    if not plot.mps:
        return ()
    return tuple(
        Allocation(
            namespace=tenant.namespace,
            pod=tenant.pod,
            container=tenant.container,
            resource="nvidia.com/gpu.shared",
            devices=(f"{uuid(0)}::{number}",),
            pod_uid=tenant.pod_uid,
            tenant=tenant.id,
        )
        for number, tenant in enumerate(tenants)
        if tenant.pod
    )


def activity(rows: Rows, seconds: float, random: np.random.Generator) -> ReportedActivity:
    """Returns when tenants were active on devices. In each of its steps, a process is active for a share of
    the time: the share that its calls took in ``rows``. Steps of different processes differ in length, so
    that their active times overlap now and then."""
    ticks = max(int(seconds * 1e9) // _TICK_NS, 1)
    called_ns: Counter[tuple[str, str, int]] = Counter()
    for key, total_ns in zip(rows.keys, rows.total_ns.tolist(), strict=True):
        if key.outermost and key.layer != HOST_LAYER and total_ns:
            called_ns[key.device, key.tenant, key.pid] += total_ns
    active: dict[tuple[str, str], int] = {}
    for (device, tenant, pid), ns in called_ns.items():
        step = _STEP_TICKS + pid % 29
        place = (np.arange(ticks) + random.integers(step)) % step
        bits = np.packbits(place < ns / (ticks * _TICK_NS) * step, bitorder="little")
        active[device, tenant] = active.get((device, tenant), 0) | int.from_bytes(bits.tobytes(), "little")
    return reported_activity(active, _TICK_NS)
