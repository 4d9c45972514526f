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
    the driver's latest sample of the process; None if the driver takes no samples (as with MIG, and on many
    boards also without MIG) or the sample is too old."""
    memory_percent: float | None = None
    """Share of time in which the process read or wrote device memory."""
    encoder_percent: float | None = None
    decoder_percent: float | None = None
    sample_age_seconds: float | None = None
    """Age in seconds of the driver's latest sample of the process; None without a sample."""
    process: str = ""
    """Name of the process (its ``comm``); '' if unknown."""
    resident_ns: int | None = None
    """Time within the window in which the process had the GPU: its context was loaded, and those of all other
    processes were not. From the driver's log of context switches, which is read while several processes share
    a GPU by time-slicing; None if it was not read. An idle context stays loaded until another one has
    work."""


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


_UNITS: Final = {
    "_percent": "%",
    "_bytes": "B",
    "_bytes_per_second": "B/s",
    "_watts": "W",
    "_celsius": "C",
    "_mhz": "MHz",
    "_millijoules": "mJ",
    "_ns": "ns",
}
"""Unit of a figure, by the suffix of the figure's name."""


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
    label: str = ""
    """Name on the screen, in reports and in traces; '' if the figure is shown only together with others, or
    not at all."""
    most: float | str | None = None
    """Upper end of the figure's scale: a number, or the name of the field of ``Device`` that has the number.
    None if it is not known, and for percentages: their scale always ends at 100 (``end``)."""
    phrase: str = ""
    """Words that follow the value on the page of a GPU, such as ``of its bandwidth``."""
    gauge: int = 0
    """Position among the figures that the page of each GPU shows with a bar and over time; 0 if the page does
    not show the figure in this way."""
    question: str = ""
    """Name of the figure in ``Device.notes``, which say why a figure could not be read; '' if this name is
    ``label``."""
    smi: tuple[str, ...] = ()
    """Paths at which the XML of ``nvidia-smi -q -x`` may have the figure. The path differs between drivers;
    the first path with a value is used."""

    @property
    def about_in_window(self) -> str:
        """Meaning of the figure in a window, in one line."""
        return f"{self.about} within the window" if self.counts else self.about

    @property
    def unit(self) -> str:
        """Unit of the value, derived from the suffix of the name; '' if the value has none."""
        return next((unit for end, unit in _UNITS.items() if self.name.endswith(end)), "")

    @property
    def chart_unit(self) -> tuple[str, float]:
        """(unit, divisor): the unit that charts and traces use, and the number by which they divide the
        figure to convert it to this unit."""
        return {"B": ("GiB", 2.0**30), "B/s": ("MB/s", 1e6)}.get(self.unit, (self.unit, 1.0))

    @property
    def questions(self) -> tuple[str, ...]:
        """The names that ``Device.notes`` uses for the figure and for the upper end of the figure's scale."""
        limit = DEVICE_FIGURE[self.most].questions if isinstance(self.most, str) else ()
        return (self.question or self.label, *limit)

    def value(self, device: Device) -> float | None:
        """Returns the figure of ``device``; None if it is not known."""
        value: float | None = getattr(device, self.name)
        return value

    def limit(self, device: Device) -> float | None:
        """Returns the upper end of the figure's scale as ``device`` reports it, such as the power limit. None
        if ``device`` does not report the end, or if the end is a fixed number."""
        limit: float | None = getattr(device, self.most) if isinstance(self.most, str) else None
        return limit

    def end(self, device: Device) -> float | None:
        """Returns the upper end of the figure's scale, reported or fixed; None if neither is known."""
        if isinstance(self.most, str):
            return self.limit(device)
        return 100.0 if self.unit == "%" else self.most


def figure(about: str, **described: Any) -> Any:
    """Declares a field of ``Device`` as a figure; ``described`` are fields of ``DeviceFigure``. The field's
    default is None, which means that the driver did not report the figure."""
    return field(default=None, metadata={"about": about, **described})


@dataclass(frozen=True, slots=True)
class Device:
    """A sample of one GPU. Figures that the driver does not report are None; the others remain valid."""

    index: int
    uuid: str
    name: str
    utilization_percent: float | None = figure(
        "share of time in which a CUDA kernel ran",
        viewed=True,
        label="busy",
        gauge=1,
        question="utilization",
        smi=("utilization/gpu_util",),
    )
    memory_utilization_percent: float | None = figure(
        "share of time in which memory was read or written",
        viewed=True,
        label="memory busy",
        gauge=3,
        question="utilization",
        smi=("utilization/memory_util",),
    )
    memory_used_bytes: int | None = figure(
        "memory of the GPU that is in use",
        viewed=True,
        label="memory",
        most="memory_total_bytes",
        gauge=2,
        smi=("fb_memory_usage/used",),
    )
    memory_total_bytes: int | None = figure(
        "memory of the GPU", of_board=True, viewed=True, question="memory", smi=("fb_memory_usage/total",)
    )
    power_watts: float | None = figure(
        "power that the GPU draws",
        viewed=True,
        label="power",
        most="power_limit_watts",
        gauge=4,
        smi=(
            "gpu_power_readings/power_draw",
            "gpu_power_readings/average_power_draw",
            "gpu_power_readings/instant_power_draw",
            "power_readings/power_draw",
        ),
    )
    power_limit_watts: float | None = figure(
        "the power limit in force",
        of_board=True,
        question="power limit",
        smi=("gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit"),
    )
    temperature_celsius: float | None = figure(
        "temperature of the GPU",
        viewed=True,
        label="temperature",
        most=100.0,
        gauge=5,
        smi=("temperature/gpu_temp",),
    )
    sm_clock_mhz: int | None = figure(
        "clock of its SMs",
        viewed=True,
        label="SM clock",
        most="sm_clock_max_mhz",
        gauge=6,
        smi=("clocks/sm_clock",),
    )
    sm_clock_max_mhz: int | None = figure(
        "the fastest clock of its SMs",
        of_board=True,
        viewed=True,
        question="highest SM clock",
        smi=("max_clocks/sm_clock",),
    )
    throttle_reasons: tuple[str, ...] = ()
    """Names of the reasons that limit the clocks now. Idleness and clocks set by the administrator are left
    out."""
    processes: tuple[DeviceProcess, ...] = ()
    pcie_generation: int | None = figure(
        "PCIe generation in use", smi=("pci/pci_gpu_link_info/pcie_gen/current_link_gen",)
    )
    pcie_generation_max: int | None = figure(
        "PCIe generation that card and slot can do together",
        of_board=True,
        smi=("pci/pci_gpu_link_info/pcie_gen/max_link_gen",),
    )
    pcie_width: int | None = figure(
        "PCIe lanes in use", smi=("pci/pci_gpu_link_info/link_widths/current_link_width",)
    )
    pcie_width_max: int | None = figure(
        "PCIe lanes that card and slot have",
        of_board=True,
        smi=("pci/pci_gpu_link_info/link_widths/max_link_width",),
    )
    remap_pending: bool | None = figure(
        "1: rows of memory will be replaced at the next reset", smi=("remapped_rows/remapped_row_pending",)
    )
    pcie_replays: int | None = figure("PCIe packets retransmitted", counts=True, viewed=True)
    ecc_corrected: int | None = figure("memory errors that were corrected", counts=True)
    ecc_uncorrected: int | None = figure("memory errors that were not corrected", counts=True, viewed=True)
    power_held_ns: int | None = figure(
        "how long clocks were throttled by the power cap", counts=True, viewed=True
    )
    thermal_held_ns: int | None = figure(
        "how long clocks were throttled by temperature", counts=True, viewed=True
    )
    context_switches: int | None = figure(
        "how often the GPU changed to the context of another process, while several processes shared it",
        counts=True,
        viewed=True,
        question="context switches",
    )
    context_log_ns: int | None = figure(
        "how long the log of these context switches was read",
        counts=True,
        viewed=True,
        question="context switches",
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
    minor: int | None = figure(
        "N in the name of the device file `/dev/nvidiaN`", of_board=True, smi=("minor_number",)
    )
    persistence: bool | None = figure(
        "1: the driver keeps the GPU initialized while no process uses it",
        of_board=True,
        smi=("persistence_mode",),
    )
    compute_mode: str = ""
    """Compute mode of the driver: ``default``, ``exclusive process``, ``exclusive thread``,
    ``prohibited``."""
    virtualization: str = ""
    """Virtualization mode of the driver: ``none``, ``passthrough``, ``vGPU``, ``vGPU host``, ``vSGA
    host``."""
    performance_state: int | None = figure(
        "performance state: 0 is the fastest, 15 the slowest", smi=("performance_state",)
    )

    mig: bool | None = figure(
        "1: MIG divides the GPU; the driver then reports no utilization or process samples of the whole GPU",
        of_board=True,
        viewed=True,
        smi=("mig_mode/current_mig",),
    )
    instances: tuple[MigInstance, ...] = ()

    encoder_percent: float | None = figure(
        "use of its encoders", viewed=True, label="encoder", phrase="busy", smi=("utilization/encoder_util",)
    )
    decoder_percent: float | None = figure(
        "use of its decoders", viewed=True, label="decoder", phrase="busy", smi=("utilization/decoder_util",)
    )
    jpeg_percent: float | None = figure(
        "use of its JPEG decoders",
        viewed=True,
        label="JPEG decoder",
        phrase="busy",
        smi=("utilization/jpeg_util",),
    )
    sm_active_percent: float | None = figure(
        "SMs that had work, on average (GPM, from Hopper on)", viewed=True, label="SMs active"
    )
    sm_occupancy_percent: float | None = figure(
        "warps resident on the SMs, as a share of the maximum", viewed=True
    )
    tensor_percent: float | None = figure(
        "share of time in which the tensor cores worked",
        viewed=True,
        label="tensor cores",
        phrase="of the time",
    )
    dram_percent: float | None = figure(
        "share of the bandwidth of device memory in use",
        viewed=True,
        label="DRAM busy",
        phrase="of its bandwidth",
    )

    memory_clock_mhz: int | None = figure(
        "clock of its memory", label="memory clock", most="memory_clock_max_mhz", smi=("clocks/mem_clock",)
    )
    memory_clock_max_mhz: int | None = figure(
        "the fastest clock of its memory", of_board=True, smi=("max_clocks/mem_clock",)
    )
    video_clock_mhz: int | None = figure(
        "clock of its encoders and decoders",
        label="video clock",
        most="video_clock_max_mhz",
        smi=("clocks/video_clock",),
    )
    video_clock_max_mhz: int | None = figure(
        "the fastest clock of its encoders and decoders", of_board=True, smi=("max_clocks/video_clock",)
    )
    power_limit_default_watts: float | None = figure(
        "the default power limit of the board",
        of_board=True,
        smi=("gpu_power_readings/default_power_limit", "power_readings/default_power_limit"),
    )
    power_limit_max_watts: float | None = figure(
        "the highest power limit that the board allows",
        of_board=True,
        smi=("gpu_power_readings/max_power_limit", "power_readings/max_power_limit"),
    )
    energy_millijoules: int | None = figure("energy that the GPU consumed", counts=True, viewed=True)
    memory_temperature_celsius: float | None = figure(
        "temperature of its memory",
        viewed=True,
        label="memory heat",
        most=100.0,
        smi=("temperature/memory_temp",),
    )
    slowdown_celsius: float | None = figure(
        "temperature at which the hardware begins to slow down",
        of_board=True,
        smi=("temperature/gpu_temp_slow_threshold",),
    )
    shutdown_celsius: float | None = figure(
        "temperature at which the GPU switches itself off",
        of_board=True,
        smi=("temperature/gpu_temp_max_threshold",),
    )
    thermal_margin_celsius: float | None = figure(
        "how much hotter the GPU may become before it slows down (T.Limit)",
        viewed=True,
        label="heat margin",
        phrase="until it slows down",
        smi=("temperature/gpu_temp_tlimit",),
    )
    fan_percent: float | None = figure(
        "speed of the fastest fan, relative to its intended maximum",
        viewed=True,
        label="fan",
        phrase="of its speed",
        smi=("fan_speed",),
    )
    bar1_used_bytes: int | None = figure(
        "memory of the GPU that is mapped into the host's address space (BAR1)",
        label="BAR1",
        most="bar1_total_bytes",
        phrase="mapped by the host",
        smi=("bar1_memory_usage/used",),
    )
    bar1_total_bytes: int | None = figure(
        "memory of the GPU that can be mapped into the host's address space (BAR1)",
        of_board=True,
        smi=("bar1_memory_usage/total",),
    )

    sync_boost_held_ns: int | None = figure(
        "how long clocks were throttled to match a slower GPU of the sync boost group", counts=True
    )
    board_limit_held_ns: int | None = figure(
        "how long clocks were throttled by the board's own limits", counts=True
    )
    reliability_held_ns: int | None = figure(
        "how long clocks were throttled by the reliability limits of the voltage", counts=True
    )
    software_thermal_held_ns: int | None = figure(
        "how long the driver held clocks down because of temperature", counts=True
    )
    hardware_thermal_held_ns: int | None = figure(
        "how long the hardware held clocks down because of temperature", counts=True
    )
    power_brake_held_ns: int | None = figure(
        "how long clocks were throttled because the power supply asked for it", counts=True
    )

    pcie_rx_bytes_per_second: int | None = figure(
        "bytes from the host over PCIe", viewed=True, label="PCIe received", smi=("pci/rx_util",)
    )
    pcie_tx_bytes_per_second: int | None = figure(
        "bytes to the host over PCIe", viewed=True, label="PCIe sent", smi=("pci/tx_util",)
    )
    nvlinks: int | None = figure("number of NVLinks of the GPU", of_board=True)
    nvlinks_active: int | None = figure("NVLinks that are up")
    nvlink_rx_bytes: int | None = figure("bytes received over all NVLinks", counts=True, viewed=True)
    nvlink_tx_bytes: int | None = figure("bytes sent over all NVLinks", counts=True, viewed=True)
    nvlink_errors: int | None = figure("CRC errors, replays and recoveries of all NVLinks", counts=True)

    ecc: bool | None = figure(
        "1: error correction of the memory is on", of_board=True, smi=("ecc_mode/current_ecc",)
    )
    ecc_corrected_lifetime: int | None = figure("corrected memory errors, counted since the board was made")
    ecc_uncorrected_lifetime: int | None = figure(
        "uncorrected memory errors, counted since the board was made"
    )
    retired_pages: int | None = figure(
        "pages of memory that are out of use (before Ampere; later boards remap rows)"
    )
    retirement_pending: bool | None = figure("1: pages of memory will be taken out of use at the next reset")
    remapped_corrected: int | None = figure(
        "rows of memory replaced because of corrected errors, since the board was made",
        smi=("remapped_rows/remapped_row_corr",),
    )
    remapped_uncorrected: int | None = figure(
        "rows of memory replaced because of uncorrected errors, since the board was made",
        smi=("remapped_rows/remapped_row_unc",),
    )
    remap_failed: bool | None = figure(
        "1: a row of memory could not be replaced; the board needs to be exchanged",
        smi=("remapped_rows/remapped_row_failure",),
    )

    host: str = ""
    """Host of the GPU in a window of several hosts; '' in a window of one host."""

    @property
    def throttle_told(self) -> bool:
        """True if the driver reported throttle reasons; if not, an empty ``throttle_reasons`` does not mean
        that the clocks are not limited."""
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
DEVICE_FIGURE: Final = {one.name: one for one in DEVICE_FIGURES}
"""All figures of a GPU by their names."""
DEVICE_GAUGES: Final = tuple(sorted((one for one in DEVICE_FIGURES if one.gauge), key=lambda one: one.gauge))
"""Figures on the page of each GPU, in the order of the page."""
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
    cpu_steal_percent: float = 0.0
    """Share of the time of all CPUs together, since the previous sample, in which the hypervisor ran
    something else on them, 0 to 100. It is part of ``cpu_percent``; 0 on a machine that is not virtual."""


@dataclass(frozen=True, slots=True)
class GoneDevice:
    """A GPU or MIG device that was there in a part of a merged window, but not at the end of the window.

    ``model.merge`` needs these records when a merged window is merged again: they show which device a label
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
