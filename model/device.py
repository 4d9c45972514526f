"""What the devices and the host showed at one moment. None stands for a figure that was not available."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class DeviceProcess:
    """A process that holds a context on a device, as NVML lists it."""

    pid: int
    kind: str
    """``C`` compute, ``G`` graphics, ``C+G`` both, ``M+C`` client of MPS."""
    memory_bytes: int | None = None
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU at one moment. Every figure that the driver could not give is None: a cell, not the row."""

    index: int
    uuid: str
    name: str
    utilization_percent: float | None = None
    memory_utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    throttle_reasons: tuple[str, ...] = ()
    """Reasons that hold the clocks down now, by name; idle and chosen clocks are no fault and not listed."""
    processes: tuple[DeviceProcess, ...] = ()
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    """What card and slot can do together."""
    pcie_width: int | None = None
    """Lanes."""
    pcie_width_max: int | None = None
    remap_pending: bool | None = None
    """Rows of memory wait for a reset to be replaced."""
    pcie_replays: int | None = None
    """Since the look before, as all counters that follow."""
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    power_held_ns: int | None = None
    """How long clocks were held down by the power cap."""
    thermal_held_ns: int | None = None
    """The same, by temperature."""
    xids: tuple[int, ...] = ()
    """Critical errors that the driver reported."""
    lost: bool = False
    """The device no longer answers."""
    notes: tuple[str, ...] = ()
    """What could not be read and why, one short line each."""


DEVICE_COUNTERS: Final = (
    "pcie_replays",
    "ecc_corrected",
    "ecc_uncorrected",
    "power_held_ns",
    "thermal_held_ns",
)
"""Fields of ``Device`` that count: where windows add, they add up, and ``xids`` are put together."""


@dataclass(frozen=True, slots=True)
class System:
    """The host at one moment."""

    cpus: int
    cpu_percent: float
    """Busy share of all CPUs together since the last look, 0 to 100."""
    cpu_each_percent: tuple[float, ...] = ()
    memory_total_bytes: int = 0
    memory_used_bytes: int = 0
    swap_total_bytes: int = 0
    swap_used_bytes: int = 0
    load: tuple[float, float, float] = (0.0, 0.0, 0.0)
    uptime_seconds: float = 0.0
    clock_error_ns: int | None = None
    """How far its clock may be off true time, by the kernel's account; None where nobody keeps it."""


@dataclass(frozen=True, slots=True)
class Devices:
    """All GPUs of the host, or the one line that says why there are none."""

    devices: tuple[Device, ...] = ()
    unavailable: str = ""
    """Empty where NVML answers; else one line such as ``no NVIDIA driver on this host``."""
    driver: str = field(default="")
