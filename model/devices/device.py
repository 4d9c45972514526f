"""Samples of GPUs and of the host. None stands for a figure that was not available."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class DeviceProcess:
    """A process that holds a context on a device, as NVML lists it."""

    pid: int
    kind: str
    """``C`` compute, ``G`` graphics, ``C+G`` both, ``M+C`` MPS client."""
    memory_bytes: int | None = None
    tenant: str = ""
    gpu_instance: int | None = None
    """Id of the MIG GPU instance that it runs on; None without MIG."""
    compute_instance: int | None = None
    sm_percent: float | None = None
    """Share of time in which its CUDA kernels ran, in the driver's latest sample of the process, as the three
    percentages below. None if the driver takes no samples (with MIG, on many boards) or the sample is too
    old."""
    memory_percent: float | None = None
    """Share of time in which it read or wrote device memory."""
    encoder_percent: float | None = None
    decoder_percent: float | None = None
    sample_age_seconds: float | None = None
    """Age of that sample."""
    process: str = ""
    """Name of the process (its ``comm``); '' if unknown."""


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One MIG device: a part of a GPU that a program sees as a GPU of its own."""

    gpu: int
    """Index of the GPU that it is a part of."""
    index: int
    """Index of the MIG device on that GPU."""
    uuid: str
    profile: str = ""
    """MIG profile: ``1g.10gb``; ``1c.3g.40gb`` for a compute instance with a part of the GPU instance's
    compute."""
    gpu_instance: int | None = None
    compute_instance: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    processes: tuple[DeviceProcess, ...] = ()
    listed: bool = True
    """True if the driver listed its processes."""

    @property
    def label(self) -> str:
        """Label on its host: ``0:3`` is MIG device 3 of GPU 0 (as in NVIDIA_VISIBLE_DEVICES)."""
        return f"{self.gpu}:{self.index}"


@dataclass(frozen=True, slots=True)
class DeviceFigure:
    """Description of a figure of a GPU."""

    name: str
    """Name of the field, with its unit, as in JSON and SQL."""
    kind: str
    """Type of the value, if it is not None: float, int or bool."""
    about: str
    """Meaning of the figure, in one line."""
    of_board: bool = False
    """True if the figure is a constant of the board."""
    counts: bool = False
    """True if the figure counts events since the sample before: it adds up when windows are added."""
    viewed: bool = False
    """True if the SQL view ``devices`` has a column for it."""

    @property
    def about_in_window(self) -> str:
        """Meaning of the figure in a window, in one line."""
        return f"{self.about} within the window" if self.counts else self.about


def figure(about: str, *, of_board: bool = False, counts: bool = False, viewed: bool = False) -> Any:
    """Declares a field of ``Device`` as a figure; its default None means that the driver did not report
    it."""
    metadata = {"about": about, "of_board": of_board, "counts": counts, "viewed": viewed}
    return field(default=None, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Device:
    """A sample of one GPU. Figures that the driver does not report are None; the others remain valid."""

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
    """Names of the reasons that limit the clocks now, without idleness and clocks set by the
    administrator."""
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
    """XIDs: critical errors that the driver reported."""
    lost: bool = False
    """True if the device no longer answers."""
    notes: tuple[str, ...] = ()
    """What could not be read and why, one short line each."""
    ages: tuple[tuple[str, float], ...] = ()
    """(field, age in seconds) of figures that are older than the sample: figures that take long to read are
    read less often, and a driver that hangs reports nothing new."""

    pci_bus_id: str = ""
    """PCI address: ``00000000:1B:00.0``."""
    minor: int | None = figure("N of its `/dev/nvidiaN`", of_board=True)
    persistence: bool | None = figure("1: the driver keeps it ready while nobody uses it", of_board=True)
    compute_mode: str = ""
    """Compute mode of the driver: ``default``, ``exclusive process``, ``exclusive thread``,
    ``prohibited``."""
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
    jpeg_percent: float | None = figure("use of its JPEG decoders", viewed=True)
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
    """Host of the device in a window of several hosts; '' stands for the window's host."""

    @property
    def throttle_told(self) -> bool:
        """True if the driver reported throttle reasons; if not, an empty ``throttle_reasons`` means
        nothing."""
        asked = "throttle reasons"
        return not self.lost and all(asked not in said.partition(": ")[0].split(", ") for said in self.notes)

    @property
    def label(self) -> str:
        """Label on its host: its index. In a window of several hosts, several devices may have the same
        label."""
        return str(self.index)


DEVICE_FIGURES: Final = tuple(
    DeviceFigure(one.name, str(one.type).partition(" ")[0], **one.metadata)
    for one in fields(Device)
    if one.metadata
)
"""All figures of a GPU. Tables of files, SQL views and their documentation are derived from it."""
DEVICE_COUNTERS: Final = tuple(one.name for one in DEVICE_FIGURES if one.counts)
"""Fields of ``Device`` that add up when windows are added. ``xids``, which are merged, are not among them."""


@dataclass(frozen=True, slots=True)
class System:
    """A sample of the host."""

    cpus: int
    cpu_percent: float
    """Busy share of all CPUs together since the sample before, 0 to 100."""
    cpu_each_percent: tuple[float, ...] = ()
    memory_total_bytes: int = 0
    memory_used_bytes: int = 0
    swap_total_bytes: int = 0
    swap_used_bytes: int = 0
    load: tuple[float, float, float] = (0.0, 0.0, 0.0)
    uptime_seconds: float = 0.0
    clock_error_ns: int | None = None
    """Maximum error of its clock, as the Linux kernel estimates it; None if the clock is not synchronised."""
    cpu_pressure_percent: float | None = None
    """Share of time since the sample before in which a task waited for a CPU, 0 to 100; None if the Linux
    kernel has no pressure stall information (PSI)."""
    memory_pressure_percent: float | None = None
    """Share of time in which a task waited for memory (reclaim, refaults), as ``cpu_pressure_percent``."""
    io_pressure_percent: float | None = None
    """Share of time in which a task waited for block I/O, as ``cpu_pressure_percent``."""


@dataclass(frozen=True, slots=True)
class GoneDevice:
    """A GPU or MIG device that a merged window saw and that is not there at its end.

    ``model.merge`` needs it: without it, a merged window that is merged again cannot tell whose label is in
    its rows, and loses the counts of a device that comes back.
    """

    uuid: str
    label: str
    """The label that it had last. Rows call it so, or by its UUID where a later device has that label."""
    counts: tuple[tuple[str, int], ...] = ()
    """(field, sum) of each of ``DEVICE_COUNTERS`` that is known, over the window."""
    xids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Devices:
    """All GPUs of the host, or the reason why there are none."""

    devices: tuple[Device, ...] = ()
    unavailable: str = ""
    """'' if NVML answers; else one line such as ``no NVIDIA driver on this host``."""
    driver: str = ""
    """Version of the driver."""
    gone: tuple[GoneDevice, ...] = ()
    """Devices of a merged window that are not there at its end, in the order in which they were last seen."""
