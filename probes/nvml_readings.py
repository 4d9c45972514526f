"""What is asked of each GPU through NVML: which call tells which figure, how often, what can be true of it.

One table, ``READINGS``. Numbers are the driver's own: totals since it was loaded, milliwatts, bits. What
counts is asked at each look, so that each window has what came in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from probes.nvml_asking import Asking, NoAnswer

Answer = Sequence[int | float | None]
"""One value for each figure of a reading."""

EACH_LOOK: Final = 0.0
SOON: Final = 2.0
"""Seconds between two looks at what changes slowly, or is dear to ask for."""
SELDOM: Final = 10.0
STEADY: Final = 60.0
"""The same, of what hardly ever changes: such figures have no age."""
ONCE: Final = float("inf")

NOT_GIVEN: Final = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
"""NVML_VALUE_NOT_AVAILABLE, of 32 and of 64 bits."""
_PERCENT, _CELSIUS, _MHZ = 100, 250, 100_000
_MILLIWATTS = 100_000_000
_BYTES = 1 << 50
_TOTAL = 1 << 62
_SMALL = 1 << 20
_ALL_LINKS: Final = 0xFFFFFFFF
"""Scope of a field value: the sum over all NVLinks (nvml.h, NVML_FI_DEV_NVLINK_THROUGHPUT_*)."""

THROTTLE_REASONS: Final = (
    (0x004, "power cap"),
    (0x008, "hardware slowdown"),
    (0x010, "sync boost"),
    (0x020, "thermal, software"),
    (0x040, "thermal, hardware"),
    (0x080, "power brake"),
    (0x200, "board limit"),
    (0x400, "reliability"),
)
"""Bits of nvml.h's nvmlClocksEventReasons that hold clocks down against the user's wish.

Left out, since they are no fault: 0x001 idle, 0x002 clocks chosen for applications, 0x100 display clocks.
"""
COMPUTE_MODES: Final = ("default", "exclusive thread", "prohibited", "exclusive process")
"""By their number in nvml.h (nvmlComputeMode_t)."""
VIRTUALIZATION_MODES: Final = ("none", "passthrough", "vGPU", "vGPU host", "vSGA host")
"""The same (nvmlGpuVirtualizationMode_t)."""


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """Names of the reasons in ``bits`` that hold the clocks down; a bit unknown here by its number."""
    names = [name for bit, name in THROTTLE_REASONS if bits & bit]
    unknown = bits & ~(0x103 | sum(bit for bit, _ in THROTTLE_REASONS))
    return (*names, f"reason {unknown:#x}") if unknown else tuple(names)


def _named(names: Sequence[str]) -> Callable[[Any], str]:
    return lambda number: names[number] if 0 <= number < len(names) else f"mode {number}"


def _watts(milliwatts: Any) -> float:
    return float(milliwatts) / 1000


@dataclass(frozen=True, slots=True)
class Figure:
    """A field of ``Device``."""

    field: str
    most: float
    """No true answer is above it: what is, is not shown."""
    make: Callable[[Any], Any] = int


@dataclass(frozen=True, slots=True)
class Reading:
    """One question."""

    name: str
    """In the notes of a device that does not answer it."""
    figures: tuple[Figure, ...]
    ask: Callable[[Asking, Any], Answer]
    """Raises what ``Asking`` does."""
    every_seconds: float = EACH_LOOK
    optional: bool = True
    """Many boards do not tell it: where it is not supported, nothing is missing."""
    given: str = ""
    """Not asked where this field is known already."""


def _call(function: str, *constants: str) -> Callable[[Asking, Any], Answer]:
    """Of a function that gives one number."""
    return lambda ask, gpu: (ask(function, gpu, *constants),)


def _one(
    name: str, figure: Figure, function: str, *constants: str, every: float = EACH_LOOK, usual: bool = False
) -> Reading:
    return Reading(name, (figure,), _call(function, *constants), every, optional=not usual)


def _percent(field: str) -> Figure:
    return Figure(field, _PERCENT, float)


def _utilization(ask: Asking, gpu: Any) -> Answer:
    rates = ask("nvmlDeviceGetUtilizationRates", gpu)
    return rates.gpu, rates.memory


def _first(function: str) -> Callable[[Asking, Any], Answer]:
    """Of a function that gives a value and something about it."""
    return lambda ask, gpu: tuple(ask(function, gpu)[:1])


def memory(ask: Asking, gpu: Any) -> Answer:
    """Used and total bytes: version 2 keeps what the driver reserves apart from what is used, as nvidia-smi
    does; drivers before 510 do not have it."""
    try:
        told = ask("nvmlDeviceGetMemoryInfo", gpu, ask.nvml.nvmlMemory_v2)
    except NoAnswer as none:
        if not none.unsupported:
            raise
        told = ask("nvmlDeviceGetMemoryInfo", gpu)
    return told.used, told.total


def _reasons(ask: Asking, gpu: Any) -> Answer:
    try:
        return (ask("nvmlDeviceGetCurrentClocksEventReasons", gpu),)
    except NoAnswer as none:
        if not none.missing:
            raise
        return (ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu),)  # its name before driver 535


def _held(policy: str) -> Callable[[Asking, Any], Answer]:
    return lambda ask, gpu: (ask("nvmlDeviceGetViolationStatus", gpu, policy).violationTime,)


def _ecc_errors(kind: str, counter: str) -> Callable[[Asking, Any], Answer]:
    return _call("nvmlDeviceGetTotalEccErrors", kind, counter)


def _bar1(ask: Asking, gpu: Any) -> Answer:
    told = ask("nvmlDeviceGetBAR1MemoryInfo", gpu)
    return told.bar1Used, told.bar1Total


def _fans(ask: Asking, gpu: Any) -> Answer:
    number = min(int(ask("nvmlDeviceGetNumFans", gpu)), 16)
    if not number:
        raise NoAnswer("it has none", lasting=True, unsupported=True)
    return (max(int(ask("nvmlDeviceGetFanSpeed_v2", gpu, fan)) for fan in range(number)),)


def _pcie_throughput(ask: Asking, gpu: Any) -> Answer:
    """Measured by the driver over 20 ms for each direction, in KB/s."""
    counters = ("NVML_PCIE_UTIL_RX_BYTES", "NVML_PCIE_UTIL_TX_BYTES")
    return [1000 * int(ask("nvmlDeviceGetPcieThroughput", gpu, counter)) for counter in counters]


def _remapped(ask: Asking, gpu: Any) -> Answer:
    corrected, uncorrected, pending, failed = ask("nvmlDeviceGetRemappedRows", gpu)
    return corrected, uncorrected, pending, failed


_NAMED_FIELDS: Final = {
    "software thermal": (269, 0),
    "hardware thermal": (270, 0),
    "power brake": (271, 0),
    "memory temperature": (82, 0),
    "retired, single bit": (29, 0),
    "retired, double bit": (30, 0),
    "retirement pending": (31, 0),
    "links": (91, 0),
    "received KiB": (139, _ALL_LINKS),
    "sent KiB": (138, _ALL_LINKS),
    "flit CRC": (38, 0),
    "data CRC": (45, 0),
    "replays": (52, 0),
    "recoveries": (59, 0),
}
"""Field values by nvml.h's numbers (NVML_FI_DEV_*) and scope."""
_UNION: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of nvmlValue_t by nvmlValueType_t."""


def field_values(ask: Asking, gpu: Any, *names: str) -> list[int | float | None]:
    """Several fields in one call; None for each that this board does not have. Raises NoAnswer where it has
    none of them."""
    values = ask("nvmlDeviceGetFieldValues", gpu, [_NAMED_FIELDS[name] for name in names])
    found: list[int | float | None] = []
    for value in values:
        kind = int(value.valueType)
        known = value.nvmlReturn == 0 and 0 <= kind < len(_UNION)
        found.append(getattr(value.value, _UNION[kind]) if known else None)
    if all(value is None for value in found):
        raise NoAnswer("not supported", lasting=True, unsupported=True)
    return found


def _fields(*names: str) -> Callable[[Asking, Any], Answer]:
    return lambda ask, gpu: field_values(ask, gpu, *names)


def _retired(ask: Asking, gpu: Any) -> Answer:
    single, double, pending = field_values(
        ask, gpu, "retired, single bit", "retired, double bit", "retirement pending"
    )
    pages = None if single is None and double is None else (single or 0) + (double or 0)
    return pages, pending


def _links(ask: Asking, gpu: Any) -> Answer:
    """How many NVLinks there are and how many of them are up."""
    [links] = field_values(ask, gpu, "links")
    number = min(int(links or 0), 64)
    if not number:
        raise NoAnswer("it has none", lasting=True, unsupported=True)
    return number, sum(1 for link in range(number) if _is_up(ask, gpu, link))


def _is_up(ask: Asking, gpu: Any, link: int) -> bool:
    try:
        return bool(ask("nvmlDeviceGetNvLinkState", gpu, link))
    except NoAnswer:  # a link that is not wired, or not for this tenant
        return False


def _traffic(ask: Asking, gpu: Any) -> Answer:
    received, sent, *errors = field_values(
        ask, gpu, "received KiB", "sent KiB", "flit CRC", "data CRC", "replays", "recoveries"
    )
    known = [error for error in errors if error is not None]
    return (
        None if received is None else int(received) * 1024,
        None if sent is None else int(sent) * 1024,
        sum(known) if known else None,
    )


READINGS: Final = (
    Reading(
        "utilization",
        (_percent("utilization_percent"), _percent("memory_utilization_percent")),
        _utilization,
        optional=False,
    ),
    Reading(
        "memory",
        (Figure("memory_used_bytes", _BYTES), Figure("memory_total_bytes", _BYTES)),
        memory,
        optional=False,
    ),
    _one("power", Figure("power_watts", _MILLIWATTS, _watts), "nvmlDeviceGetPowerUsage", usual=True),
    _one(
        "temperature",
        Figure("temperature_celsius", _CELSIUS, float),
        *("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
        usual=True,
    ),
    _one("SM clock", Figure("sm_clock_mhz", _MHZ), "nvmlDeviceGetClockInfo", "NVML_CLOCK_SM", usual=True),
    Reading(
        "throttle reasons",
        (Figure("throttle_reasons", _TOTAL, throttle_reasons),),
        _reasons,
        optional=False,
    ),
    *(
        Reading(f"time held by {name}", (Figure(field, _TOTAL),), _held(policy), optional=optional)
        for name, field, policy, optional in (
            ("power", "power_held_ns", "NVML_PERF_POLICY_POWER", False),
            ("temperature", "thermal_held_ns", "NVML_PERF_POLICY_THERMAL", False),
            ("sync boost", "sync_boost_held_ns", "NVML_PERF_POLICY_SYNC_BOOST", True),
            ("board limit", "board_limit_held_ns", "NVML_PERF_POLICY_BOARD_LIMIT", True),
            ("reliability", "reliability_held_ns", "NVML_PERF_POLICY_RELIABILITY", True),
        )
    ),
    Reading(
        "time held by each slowdown",
        (
            Figure("software_thermal_held_ns", _TOTAL),
            Figure("hardware_thermal_held_ns", _TOTAL),
            Figure("power_brake_held_ns", _TOTAL),
        ),
        _fields("software thermal", "hardware thermal", "power brake"),
    ),
    _one("energy", Figure("energy_millijoules", _TOTAL), "nvmlDeviceGetTotalEnergyConsumption"),
    Reading(
        "NVLink traffic",
        (
            Figure("nvlink_rx_bytes", _TOTAL),
            Figure("nvlink_tx_bytes", _TOTAL),
            Figure("nvlink_errors", _TOTAL),
        ),
        _traffic,
    ),
    _one("PCIe replays", Figure("pcie_replays", _TOTAL), "nvmlDeviceGetPcieReplayCounter", usual=True),
    *(
        Reading(
            f"{name} ECC errors",
            (Figure(f"ecc_{name}", _TOTAL),),
            _ecc_errors(f"NVML_MEMORY_ERROR_TYPE_{name.upper()}", "NVML_VOLATILE_ECC"),
            optional=False,
        )
        for name in ("corrected", "uncorrected")
    ),
    Reading(
        "PCIe throughput",
        (Figure("pcie_rx_bytes_per_second", _BYTES), Figure("pcie_tx_bytes_per_second", _BYTES)),
        _pcie_throughput,
        SOON,
        given="pcie_rx_bytes_per_second",
    ),
    _one(
        "PCIe generation",
        Figure("pcie_generation", 64),
        "nvmlDeviceGetCurrPcieLinkGeneration",
        every=SOON,
        usual=True,
    ),
    _one("PCIe width", Figure("pcie_width", 256), "nvmlDeviceGetCurrPcieLinkWidth", every=SOON, usual=True),
    *(
        Reading(
            f"{name} utilization",
            (_percent(f"{name}_percent"),),
            _first(f"nvmlDeviceGet{name.capitalize()}Utilization"),
            SOON,
        )
        for name in ("encoder", "decoder")
    ),
    _one(
        "memory clock",
        Figure("memory_clock_mhz", _MHZ),
        *("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
        every=SOON,
    ),
    _one(
        "video clock",
        Figure("video_clock_mhz", _MHZ),
        *("nvmlDeviceGetClockInfo", "NVML_CLOCK_VIDEO"),
        every=SOON,
    ),
    _one("performance state", Figure("performance_state", 15), "nvmlDeviceGetPerformanceState", every=SOON),
    Reading(
        "memory temperature",
        (Figure("memory_temperature_celsius", _CELSIUS, float),),
        _fields("memory temperature"),
        SOON,
    ),
    Reading("fans", (_percent("fan_percent"),), _fans, SELDOM),
    Reading(
        "remapped rows",
        (
            Figure("remapped_corrected", _SMALL),
            Figure("remapped_uncorrected", _SMALL),
            Figure("remap_pending", 1, bool),
            Figure("remap_failed", 1, bool),
        ),
        _remapped,
        SELDOM,
        optional=False,
    ),
    Reading(
        "retired pages",
        (Figure("retired_pages", _SMALL), Figure("retirement_pending", 1, bool)),
        _retired,
        SELDOM,
    ),
    Reading(
        "BAR1 memory", (Figure("bar1_used_bytes", _BYTES), Figure("bar1_total_bytes", _BYTES)), _bar1, SELDOM
    ),
    Reading("NVLinks", (Figure("nvlinks", 64), Figure("nvlinks_active", 64)), _links, SELDOM),
    *(
        Reading(
            f"{name} ECC errors of its lifetime",
            (Figure(f"ecc_{name}_lifetime", _TOTAL),),
            _ecc_errors(f"NVML_MEMORY_ERROR_TYPE_{name.upper()}", "NVML_AGGREGATE_ECC"),
            SELDOM,
        )
        for name in ("corrected", "uncorrected")
    ),
    _one(
        "power limit",
        Figure("power_limit_watts", _MILLIWATTS, _watts),
        "nvmlDeviceGetEnforcedPowerLimit",
        every=STEADY,
        usual=True,
    ),
    _one(
        "highest SM clock",
        Figure("sm_clock_max_mhz", _MHZ),
        *("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"),
        every=STEADY,
        usual=True,
    ),
    _one(
        "highest PCIe generation",
        Figure("pcie_generation_max", 64),
        "nvmlDeviceGetMaxPcieLinkGeneration",
        every=STEADY,
        usual=True,
    ),
    _one(
        "greatest PCIe width",
        Figure("pcie_width_max", 256),
        "nvmlDeviceGetMaxPcieLinkWidth",
        every=STEADY,
        usual=True,
    ),
    *(
        _one(
            f"highest {name} clock",
            Figure(f"{name}_clock_max_mhz", _MHZ),
            *("nvmlDeviceGetMaxClockInfo", constant),
            every=STEADY,
        )
        for name, constant in (("memory", "NVML_CLOCK_MEM"), ("video", "NVML_CLOCK_VIDEO"))
    ),
    _one(
        "default power limit",
        Figure("power_limit_default_watts", _MILLIWATTS, _watts),
        "nvmlDeviceGetPowerManagementDefaultLimit",
        every=STEADY,
    ),
    *(
        _one(
            f"temperature of {name}",
            Figure(f"{name}_celsius", _CELSIUS, float),
            *("nvmlDeviceGetTemperatureThreshold", f"NVML_TEMPERATURE_THRESHOLD_{name.upper()}"),
            every=STEADY,
        )
        for name in ("slowdown", "shutdown")
    ),
    Reading("ECC mode", (Figure("ecc", 1, bool),), _first("nvmlDeviceGetEccMode"), STEADY),
    _one("persistence mode", Figure("persistence", 1, bool), "nvmlDeviceGetPersistenceMode", every=STEADY),
    _one(
        "compute mode",
        Figure("compute_mode", 255, _named(COMPUTE_MODES)),
        "nvmlDeviceGetComputeMode",
        every=SELDOM,
    ),
    _one(
        "virtualization mode",
        Figure("virtualization", 255, _named(VIRTUALIZATION_MODES)),
        "nvmlDeviceGetVirtualizationMode",
        every=STEADY,
    ),
    _one("minor number", Figure("minor", _SMALL), "nvmlDeviceGetMinorNumber", every=STEADY),
)
"""In the order in which they are asked, what matters most first."""
