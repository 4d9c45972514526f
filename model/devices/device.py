"""What the devices and the host showed at one moment. None stands for a figure that was not available."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final


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
class DeviceFigure:
    """What is known of a figure of a GPU besides its value."""

    name: str
    """Of its field, with its unit, as in JSON and in SQL."""
    kind: str
    """float, int or bool: what it is where it is not None."""
    about: str
    """What it is, in one line."""
    of_board: bool = False
    """Whether it stays the same as long as the board does."""
    counts: bool = False
    """Whether it is what was counted since the sample before: where windows add, it adds up."""
    viewed: bool = False
    """Whether the view ``devices`` of queries has it."""

    @property
    def about_in_window(self) -> str:
        """What it is in a window, in one line."""
        return f"{self.about} within the window" if self.counts else self.about


def figure(about: str, *, of_board: bool = False, counts: bool = False, viewed: bool = False) -> Any:
    """Return a field of ``Device`` for a figure; None stands for one that the driver could not give."""
    metadata = {"about": about, "of_board": of_board, "counts": counts, "viewed": viewed}
    return field(default=None, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU at one moment. Every figure that the driver could not give is None: a cell, not the row."""

    index: int
    uuid: str
    name: str
    utilization_percent: float | None = figure("time in which a CUDA kernel ran", viewed=True)
    memory_utilization_percent: float | None = figure("time in which memory was read or written", viewed=True)
    memory_used_bytes: int | None = figure("memory of the GPU that is in use", viewed=True)
    memory_total_bytes: int | None = figure("memory of the GPU", of_board=True, viewed=True)
    power_watts: float | None = figure("power that it draws", viewed=True)
    power_limit_watts: float | None = figure("the power limit in force", of_board=True)
    temperature_celsius: float | None = figure("temperature of the GPU", viewed=True)
    sm_clock_mhz: int | None = figure("clock of its SMs", viewed=True)
    sm_clock_max_mhz: int | None = figure("the fastest clock of its SMs", of_board=True, viewed=True)
    throttle_reasons: tuple[str, ...] = ()
    """Reasons that hold the clocks down now, by name; idle and chosen clocks are no fault and not listed."""
    processes: tuple[DeviceProcess, ...] = ()
    pcie_generation: int | None = figure("PCIe generation in use")
    pcie_generation_max: int | None = figure(
        "PCIe generation that card and slot can do together", of_board=True
    )
    pcie_width: int | None = figure("PCIe lanes in use")
    pcie_width_max: int | None = figure("PCIe lanes that card and slot have", of_board=True)
    remap_pending: bool | None = figure("1: rows of memory wait for a reset")
    pcie_replays: int | None = figure("PCIe packets sent again", counts=True, viewed=True)
    ecc_corrected: int | None = figure("memory errors that were corrected", counts=True)
    ecc_uncorrected: int | None = figure("memory errors that were not corrected", counts=True, viewed=True)
    power_held_ns: int | None = figure(
        "how long clocks were held down by the power cap", counts=True, viewed=True
    )
    thermal_held_ns: int | None = figure(
        "how long clocks were held down by temperature", counts=True, viewed=True
    )
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
    minor: int | None = figure("N of its `/dev/nvidiaN`", of_board=True)
    persistence: bool | None = figure("1: the driver keeps it ready while nobody uses it", of_board=True)
    compute_mode: str = ""
    """Who may use it: ``default``, ``exclusive process``, ``exclusive thread``, ``prohibited``."""
    virtualization: str = ""
    """``none``, ``passthrough``, ``vGPU``, ``vGPU host``, ``vSGA host``."""
    performance_state: int | None = figure("0 is the fastest, 15 the slowest")

    mig: bool | None = figure(
        "1: it is divided by MIG; utilization and process samples are not given for the whole of it then",
        of_board=True,
        viewed=True,
    )
    instances: tuple[MigInstance, ...] = ()

    encoder_percent: float | None = figure("use of its encoders", viewed=True)
    decoder_percent: float | None = figure("use of its decoders", viewed=True)
    sm_active_percent: float | None = figure(
        "SMs that had work, on average (GPM, from Hopper on)", viewed=True
    )
    sm_occupancy_percent: float | None = figure(
        "warps resident on them, of those there is room for", viewed=True
    )
    tensor_percent: float | None = figure("time in which the tensor cores worked", viewed=True)
    dram_percent: float | None = figure("bandwidth of device memory that was used", viewed=True)

    memory_clock_mhz: int | None = figure("clock of its memory")
    memory_clock_max_mhz: int | None = figure("the fastest clock of its memory", of_board=True)
    video_clock_mhz: int | None = figure("clock of its encoders and decoders")
    video_clock_max_mhz: int | None = figure("the fastest clock of its encoders and decoders", of_board=True)
    power_limit_default_watts: float | None = figure("the limit that the board comes with", of_board=True)
    energy_millijoules: int | None = figure("energy that it took", counts=True, viewed=True)
    memory_temperature_celsius: float | None = figure("temperature of its memory", viewed=True)
    slowdown_celsius: float | None = figure("where the hardware begins to slow down", of_board=True)
    shutdown_celsius: float | None = figure("where it switches itself off", of_board=True)
    fan_percent: float | None = figure(
        "speed of its fastest fan, of the highest it is meant to have", viewed=True
    )
    bar1_used_bytes: int | None = figure("memory of the GPU that the host maps")
    bar1_total_bytes: int | None = figure("memory of the GPU that the host can map", of_board=True)

    sync_boost_held_ns: int | None = figure(
        "how long clocks were held down to those of a slower GPU of the group", counts=True
    )
    board_limit_held_ns: int | None = figure(
        "how long clocks were held down by the board's own limits", counts=True
    )
    reliability_held_ns: int | None = figure(
        "how long clocks were held down by its limits of voltage", counts=True
    )
    software_thermal_held_ns: int | None = figure(
        "how long clocks were held down by the driver, for temperature", counts=True
    )
    hardware_thermal_held_ns: int | None = figure(
        "how long clocks were held down by the hardware, for temperature", counts=True
    )
    power_brake_held_ns: int | None = figure(
        "how long clocks were held down because the power supply asked for it", counts=True
    )

    pcie_rx_bytes_per_second: int | None = figure("bytes from the host over PCIe", viewed=True)
    pcie_tx_bytes_per_second: int | None = figure("bytes to the host over PCIe", viewed=True)
    nvlinks: int | None = figure("NVLinks that it has", of_board=True)
    nvlinks_active: int | None = figure("NVLinks that are up")
    nvlink_rx_bytes: int | None = figure("bytes received over all NVLinks", counts=True, viewed=True)
    nvlink_tx_bytes: int | None = figure("bytes sent over all NVLinks", counts=True, viewed=True)
    nvlink_errors: int | None = figure("CRC errors, replays and recoveries of all NVLinks", counts=True)

    ecc: bool | None = figure("1: its memory has error correction, and it is on", of_board=True)
    ecc_corrected_lifetime: int | None = figure("memory errors that were corrected since the board was made")
    ecc_uncorrected_lifetime: int | None = figure(
        "memory errors that were not corrected since the board was made"
    )
    retired_pages: int | None = figure(
        "pages of memory that are out of use (before Ampere; later boards remap rows)"
    )
    retirement_pending: bool | None = figure("1: pages wait for a reset to be taken out of use")
    remapped_corrected: int | None = figure(
        "rows of memory replaced since the board was made, after corrected errors"
    )
    remapped_uncorrected: int | None = figure(
        "rows of memory replaced since the board was made, after other errors"
    )
    remap_failed: bool | None = figure(
        "1: a row of memory could not be replaced; the board is to be exchanged"
    )

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


DEVICE_FIGURES: Final = tuple(
    DeviceFigure(one.name, str(one.type).partition(" ")[0], **one.metadata)
    for one in fields(Device)
    if one.metadata
)
"""Every figure of a GPU. Tables of files, views of queries and their documents are made of it."""
DEVICE_COUNTERS: Final = tuple(one.name for one in DEVICE_FIGURES if one.counts)
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
