"""Samples of GPUs and of the host. A figure that was not available is None."""

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
    """Id of the MIG GPU instance that the process runs on; None without MIG."""
    compute_instance: int | None = None
    sm_percent: float | None = None
    """Share of time in which CUDA kernels of the process ran. This and the three percentages below are from
    the driver's latest sample of the process; None if the driver takes no samples (with MIG, on many boards)
    or the sample is too old."""
    memory_percent: float | None = None
    """Share of time in which the process read or wrote device memory."""
    encoder_percent: float | None = None
    decoder_percent: float | None = None
    sample_age_seconds: float | None = None
    """Age in seconds of the driver's latest sample of the process; None without a sample."""
    process: str = ""
    """Name of the process (its ``comm``); '' if unknown."""


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One MIG device: a part of a GPU that a program sees as a GPU of its own."""

    gpu: int
    """Index of the GPU that the MIG device is a part of."""
    index: int
    """Index of the MIG device on that GPU."""
    uuid: str
    profile: str = ""
    """MIG profile, such as ``1g.10gb``, or ``1c.3g.40gb`` if the compute instance has only a part of the SMs
    of its GPU instance; '' if unknown."""
    gpu_instance: int | None = None
    compute_instance: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    processes: tuple[DeviceProcess, ...] = ()
    listed: bool = True
    """True if the driver listed the processes on the MIG device."""

    @property
    def label(self) -> str:
        """Label, unique on a host: ``0:3`` is MIG device 3 of GPU 0 (as in NVIDIA_VISIBLE_DEVICES)."""
        return f"{self.gpu}:{self.index}"


@dataclass(frozen=True, slots=True)
class DeviceFigure:
    """Description of a figure of a GPU."""

    name: str
    """Name of the field of ``Device``, which includes the unit; JSON and SQL use this name as well."""
    kind: str
    """Type of a value that is not None: float, int or bool."""
    about: str
    """Meaning of the figure, in one line."""
    of_board: bool = False
    """True if the figure is a constant of the board, or a setting that rarely changes."""
    counts: bool = False
    """True if the figure counts what happened since the previous sample, so that it adds up when windows are
    added."""
    viewed: bool = False
    """True if the SQL view ``devices`` has a column for it."""

    @property
    def about_in_window(self) -> str:
        """Meaning of the figure in a window, in one line."""
        return f"{self.about} within the window" if self.counts else self.about


def figure(about: str, *, of_board: bool = False, counts: bool = False, viewed: bool = False) -> Any:
    """Declares a field of ``Device`` as a figure. The field's default is None, which means that the driver
    did not report the figure."""
    metadata = {"about": about, "of_board": of_board, "counts": counts, "viewed": viewed}
    return field(default=None, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Device:
    """A sample of one GPU. Figures that the driver does not report are None; the others remain valid."""

    index: int
    uuid: str
    name: str
    utilization_percent: float | None = figure("share of time in which a CUDA kernel ran", viewed=True)
    memory_utilization_percent: float | None = figure(
        "share of time in which memory was read or written", viewed=True
    )
    memory_used_bytes: int | None = figure("memory of the GPU that is in use", viewed=True)
    memory_total_bytes: int | None = figure("memory of the GPU", of_board=True, viewed=True)
    power_watts: float | None = figure("power that the GPU draws", viewed=True)
    power_limit_watts: float | None = figure("the power limit in force", of_board=True)
    temperature_celsius: float | None = figure("temperature of the GPU", viewed=True)
    sm_clock_mhz: int | None = figure("clock of its SMs", viewed=True)
    sm_clock_max_mhz: int | None = figure("the fastest clock of its SMs", of_board=True, viewed=True)
    throttle_reasons: tuple[str, ...] = ()
    """Names of the reasons that limit the clocks now. Idleness and clocks set by the administrator are left
    out."""
    processes: tuple[DeviceProcess, ...] = ()
    pcie_generation: int | None = figure("PCIe generation in use")
    pcie_generation_max: int | None = figure(
        "PCIe generation that card and slot can do together", of_board=True
    )
    pcie_width: int | None = figure("PCIe lanes in use")
    pcie_width_max: int | None = figure("PCIe lanes that card and slot have", of_board=True)
    remap_pending: bool | None = figure("1: rows of memory will be replaced at the next reset")
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
    """Numbers of the XIDs (critical errors) that the driver reported since the previous sample."""
    lost: bool = False
    """True if the GPU no longer answers."""
    notes: tuple[str, ...] = ()
    """What could not be read and why, one short line each, such as ``compute processes: not supported``."""
    ages: tuple[tuple[str, float], ...] = ()
    """(field, age in seconds) of each figure that is older than the sample. stalltop reads figures that take
    long to read less often, and a driver that hangs reports no new figures."""

    pci_bus_id: str = ""
    """PCI address: ``00000000:1B:00.0``."""
    minor: int | None = figure("N in the name of the device file `/dev/nvidiaN`", of_board=True)
    persistence: bool | None = figure(
        "1: the driver keeps the GPU initialized while no process uses it", of_board=True
    )
    compute_mode: str = ""
    """Compute mode of the driver: ``default``, ``exclusive process``, ``exclusive thread``,
    ``prohibited``."""
    virtualization: str = ""
    """Virtualization mode of the driver: ``none``, ``passthrough``, ``vGPU``, ``vGPU host``, ``vSGA
    host``."""
    performance_state: int | None = figure("performance state: 0 is the fastest, 15 the slowest")

    mig: bool | None = figure(
        "1: MIG divides the GPU; the driver then reports no utilization or process samples of the whole GPU",
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
        "warps resident on the SMs, as a share of the maximum", viewed=True
    )
    tensor_percent: float | None = figure("share of time in which the tensor cores worked", viewed=True)
    dram_percent: float | None = figure("share of the bandwidth of device memory in use", viewed=True)

    memory_clock_mhz: int | None = figure("clock of its memory")
    memory_clock_max_mhz: int | None = figure("the fastest clock of its memory", of_board=True)
    video_clock_mhz: int | None = figure("clock of its encoders and decoders")
    video_clock_max_mhz: int | None = figure("the fastest clock of its encoders and decoders", of_board=True)
    power_limit_default_watts: float | None = figure("the default power limit of the board", of_board=True)
    energy_millijoules: int | None = figure("energy that the GPU consumed", counts=True, viewed=True)
    memory_temperature_celsius: float | None = figure("temperature of its memory", viewed=True)
    slowdown_celsius: float | None = figure(
        "temperature at which the hardware begins to slow down", of_board=True
    )
    shutdown_celsius: float | None = figure("temperature at which the GPU switches itself off", of_board=True)
    fan_percent: float | None = figure(
        "speed of the fastest fan, in percent of its intended maximum", viewed=True
    )
    bar1_used_bytes: int | None = figure("memory of the GPU that the host maps")
    bar1_total_bytes: int | None = figure("memory of the GPU that the host can map", of_board=True)

    sync_boost_held_ns: int | None = figure(
        "how long clocks were held down to match a slower GPU of the sync boost group", counts=True
    )
    board_limit_held_ns: int | None = figure(
        "how long clocks were held down by the board's own limits", counts=True
    )
    reliability_held_ns: int | None = figure(
        "how long clocks were held down by the reliability limits of the voltage", counts=True
    )
    software_thermal_held_ns: int | None = figure(
        "how long the driver held clocks down because of temperature", counts=True
    )
    hardware_thermal_held_ns: int | None = figure(
        "how long the hardware held clocks down because of temperature", counts=True
    )
    power_brake_held_ns: int | None = figure(
        "how long clocks were held down because the power supply asked for it", counts=True
    )

    pcie_rx_bytes_per_second: int | None = figure("bytes from the host over PCIe", viewed=True)
    pcie_tx_bytes_per_second: int | None = figure("bytes to the host over PCIe", viewed=True)
    nvlinks: int | None = figure("number of NVLinks of the GPU", of_board=True)
    nvlinks_active: int | None = figure("NVLinks that are up")
    nvlink_rx_bytes: int | None = figure("bytes received over all NVLinks", counts=True, viewed=True)
    nvlink_tx_bytes: int | None = figure("bytes sent over all NVLinks", counts=True, viewed=True)
    nvlink_errors: int | None = figure("CRC errors, replays and recoveries of all NVLinks", counts=True)

    ecc: bool | None = figure("1: error correction of the memory is on", of_board=True)
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
        "1: a row of memory could not be replaced; the board needs to be exchanged"
    )

    host: str = ""
    """Host of the GPU in a window of several hosts; '' in a window of one host."""

    @property
    def throttle_told(self) -> bool:
        """True if the driver reported throttle reasons; if not, an empty ``throttle_reasons`` means
        nothing."""
        asked = "throttle reasons"
        return not self.lost and all(asked not in said.partition(": ")[0].split(", ") for said in self.notes)

    @property
    def label(self) -> str:
        """Label, unique on a host: the index of the GPU. In a window of several hosts, GPUs of different
        hosts may have the same label."""
        return str(self.index)


DEVICE_FIGURES: Final = tuple(
    DeviceFigure(one.name, str(one.type).partition(" ")[0], **one.metadata)
    for one in fields(Device)
    if one.metadata
)
"""All figures of a GPU. Tables of files, SQL views and the documentation of both are derived from these
descriptions."""
DEVICE_COUNTERS: Final = tuple(one.name for one in DEVICE_FIGURES if one.counts)
"""Names of the fields of ``Device`` that add up when windows are added. The field ``xids`` is not among them:
the union of its values is taken."""


@dataclass(frozen=True, slots=True)
class System:
    """A sample of the host."""

    cpus: int
    cpu_percent: float
    """Busy share of all CPUs together since the previous sample, 0 to 100."""
    cpu_each_percent: tuple[float, ...] = ()
    memory_total_bytes: int = 0
    memory_used_bytes: int = 0
    swap_total_bytes: int = 0
    swap_used_bytes: int = 0
    load: tuple[float, float, float] = (0.0, 0.0, 0.0)
    uptime_seconds: float = 0.0
    clock_error_ns: int | None = None
    """Maximum error in ns of the host's clock, as the Linux kernel estimates it; None if the clock is not
    synchronised."""
    cpu_pressure_percent: float | None = None
    """Share of time since the previous sample in which a task waited for a CPU, 0 to 100; None if the Linux
    kernel has no pressure stall information (PSI)."""
    memory_pressure_percent: float | None = None
    """Share of time since the previous sample in which a task waited for memory (reclaim, refaults), 0 to
    100; None without PSI."""
    io_pressure_percent: float | None = None
    """Share of time since the previous sample in which a task waited for block I/O, 0 to 100; None without
    PSI."""


@dataclass(frozen=True, slots=True)
class GoneDevice:
    """A GPU or MIG device that was there in a part of a merged window, but not at the end of the window.

    ``model.merge`` needs these records when a merged window is merged again: they tell which device a label
    in the rows stands for, and keep the counts of a device that comes back.
    """

    uuid: str
    label: str
    """The last label of the device. Rows of the merged window use this label, or the device's UUID if a later
    device has the label."""
    counts: tuple[tuple[str, int], ...] = ()
    """(field, sum over the window) of each of ``DEVICE_COUNTERS`` that is known."""
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
    """Devices that were there in a part of a merged window, but not at the end of the window, in the order in
    which they were last seen."""
