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
    gpu_instance: int | None = None
    """The MIG GPU instance that it runs on; None outside of MIG."""
    compute_instance: int | None = None
    sm_percent: float | None = None
    """Time in which its kernels ran, in the driver's latest sample of it; so for the three that follow. None
    where the driver takes no samples (with MIG, on many boards), or none of this process is young enough."""
    memory_percent: float | None = None
    """Time in which it read or wrote device memory."""
    encoder_percent: float | None = None
    decoder_percent: float | None = None
    sample_age_seconds: float | None = None
    """How old that sample is."""
    process: str = ""
    """What it calls itself; empty where that is not known."""


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One MIG device: what a program that is given it sees as a GPU of its own."""

    gpu: int
    """Index of the GPU that it is a part of."""
    index: int
    """Its number on that GPU."""
    uuid: str
    profile: str = ""
    """Its size as the driver names it: ``1g.10gb``; with a part of the compute in it, ``1c.3g.40gb``."""
    gpu_instance: int | None = None
    compute_instance: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    processes: tuple[DeviceProcess, ...] = ()
    listed: bool = True
    """The driver told which processes are on it."""

    @property
    def label(self) -> str:
        """What names it on its host: ``0:3`` is MIG device 3 of GPU 0 (as in NVIDIA_VISIBLE_DEVICES)."""
        return f"{self.gpu}:{self.index}"


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
    """The limit in force."""
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
    """Since the look before, as all of ``DEVICE_COUNTERS``."""
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
    ages: tuple[tuple[str, float], ...] = ()
    """Figures that are older than this moment, by the name of their field, and how many seconds: what is dear
    to ask for is asked for less often, and a driver that hangs gives nothing new."""

    pci_bus_id: str = ""
    """Where it is on the bus: ``00000000:1B:00.0``."""
    minor: int | None = None
    """N of its ``/dev/nvidiaN``."""
    persistence: bool | None = None
    """The driver keeps it ready while nobody uses it."""
    compute_mode: str = ""
    """Who may use it: ``default``, ``exclusive process``, ``exclusive thread``, ``prohibited``."""
    virtualization: str = ""
    """``none``, ``passthrough``, ``vGPU``, ``vGPU host``, ``vSGA host``."""
    performance_state: int | None = None
    """0 is the fastest, 15 the slowest."""

    mig: bool | None = None
    """It is divided by MIG: utilisation and process samples are then not given for the whole of it."""
    instances: tuple[MigInstance, ...] = ()

    encoder_percent: float | None = None
    decoder_percent: float | None = None
    sm_active_percent: float | None = None
    """SMs that had work, on average (GPM, from Hopper on; as the three that follow)."""
    sm_occupancy_percent: float | None = None
    """Warps that were resident on them, of those there is room for."""
    tensor_percent: float | None = None
    """Time in which the tensor cores worked."""
    dram_percent: float | None = None
    """Bandwidth of device memory that was used."""

    memory_clock_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    video_clock_mhz: int | None = None
    video_clock_max_mhz: int | None = None
    power_limit_default_watts: float | None = None
    """The limit that the board comes with."""
    energy_millijoules: int | None = None
    """What it took."""
    memory_temperature_celsius: float | None = None
    slowdown_celsius: float | None = None
    """Where the hardware begins to slow down."""
    shutdown_celsius: float | None = None
    fan_percent: float | None = None
    """The fastest of its fans, of what that is meant to do at most."""
    bar1_used_bytes: int | None = None
    """Of the memory that the host maps."""
    bar1_total_bytes: int | None = None

    sync_boost_held_ns: int | None = None
    """How long clocks were held down to those of a slower GPU of the group."""
    board_limit_held_ns: int | None = None
    """The same, by the board's own limits; of voltage in the next."""
    reliability_held_ns: int | None = None
    software_thermal_held_ns: int | None = None
    """The same, by the driver for temperature; by the hardware for temperature in the next."""
    hardware_thermal_held_ns: int | None = None
    power_brake_held_ns: int | None = None
    """The same, since the power supply asked for it."""

    pcie_rx_bytes_per_second: int | None = None
    """From the host to the device."""
    pcie_tx_bytes_per_second: int | None = None
    nvlinks: int | None = None
    """Links that it has, and those that are up."""
    nvlinks_active: int | None = None
    nvlink_rx_bytes: int | None = None
    """Of data, over all links."""
    nvlink_tx_bytes: int | None = None
    nvlink_errors: int | None = None
    """CRC errors, replays and recoveries of all links."""

    ecc: bool | None = None
    """Its memory has error correction, and it is on."""
    ecc_corrected_lifetime: int | None = None
    """Since the board was made, as the next one."""
    ecc_uncorrected_lifetime: int | None = None
    retired_pages: int | None = None
    """Pages of memory that are out of use (before Ampere; later boards remap rows)."""
    retirement_pending: bool | None = None
    """Pages wait for a reset to be taken out of use."""
    remapped_corrected: int | None = None
    """Rows of memory replaced since the board was made, after errors that were corrected."""
    remapped_uncorrected: int | None = None
    remap_failed: bool | None = None
    """A row could not be replaced: the board is to be exchanged."""

    host: str = ""
    """The host that it is in, where hosts are put together; empty: that of its window."""

    @property
    def throttle_told(self) -> bool:
        """Whether the driver told what holds the clocks down; without, ``throttle_reasons`` says nothing."""
        asked = "throttle reasons"
        return not self.lost and all(asked not in said.partition(": ")[0].split(", ") for said in self.notes)

    @property
    def label(self) -> str:
        """What names it on its host: its number. Where hosts are put together, several may have it."""
        return str(self.index)


DEVICE_COUNTERS: Final = (
    "pcie_replays",
    "ecc_corrected",
    "ecc_uncorrected",
    "power_held_ns",
    "thermal_held_ns",
    "sync_boost_held_ns",
    "board_limit_held_ns",
    "reliability_held_ns",
    "software_thermal_held_ns",
    "hardware_thermal_held_ns",
    "power_brake_held_ns",
    "energy_millijoules",
    "nvlink_rx_bytes",
    "nvlink_tx_bytes",
    "nvlink_errors",
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
    cpu_pressure_percent: float | None = None
    """Share of the time since the last look in which a task waited for a CPU, 0 to 100; None where the kernel
    does not tell (no pressure stall information)."""
    memory_pressure_percent: float | None = None
    """The same for memory: reclaim, and pages that are read back."""
    io_pressure_percent: float | None = None
    """The same for block I/O."""


@dataclass(frozen=True, slots=True)
class Devices:
    """All GPUs of the host, or the one line that says why there are none."""

    devices: tuple[Device, ...] = ()
    unavailable: str = ""
    """Empty where NVML answers; else one line such as ``no NVIDIA driver on this host``."""
    driver: str = field(default="")
