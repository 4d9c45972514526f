"""Lists what is read of each GPU through NVML: for each figure the call, the interval, and the highest
plausible value.

``READINGS`` is the table. Numbers are as the driver gives them: totals since it was loaded, milliwatts, bits.
Counters are read in each sample, so that each window has its own increase.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stalltop.probes.nvml import questions as questions
from stalltop.probes.nvml.questions import Ask

EACH_LOOK: Final = 0.0
SOON: Final = 2.0
"""Seconds between two readings of figures that change slowly, or are expensive to read."""
SELDOM: Final = 10.0
STEADY: Final = 60.0
"""Seconds between two readings of figures that hardly ever change. Such figures are reported without an
age."""
ONCE: Final = float("inf")

_PERCENT, _CELSIUS, _MHZ = 100, 250, 100_000
_MILLIWATTS = 100_000_000
_BYTES = 1 << 50
_TOTAL = 1 << 62
_SMALL = 1 << 20

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
"""Bits of nvml.h's nvmlClocksEventReasons that throttle the clocks against the user's wish.

Three bits are left out, because they are not faults: 0x001 (idle), 0x002 (clocks chosen for applications) and
0x100 (display clocks).
"""
COMPUTE_MODES: Final = ("default", "exclusive thread", "prohibited", "exclusive process")
"""Names of compute modes; the index is the number in nvml.h (nvmlComputeMode_t)."""
VIRTUALIZATION_MODES: Final = ("none", "passthrough", "vGPU", "vGPU host", "vSGA host")
"""Names of virtualization modes; the index is the number in nvml.h (nvmlGpuVirtualizationMode_t)."""


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """Returns the names of the throttle reasons in ``bits``. A bit that is not known is named by its
    number."""
    names = [name for bit, name in THROTTLE_REASONS if bits & bit]
    unknown = bits & ~(0x103 | sum(bit for bit, _ in THROTTLE_REASONS))
    return (*names, f"reason {unknown:#x}") if unknown else tuple(names)


def _named(names: Sequence[str]) -> Callable[[Any], str]:
    return lambda number: names[number] if 0 <= number < len(names) else f"mode {number}"


def _watts(milliwatts: Any) -> float:
    return float(milliwatts) / 1000


@dataclass(frozen=True, slots=True)
class NvmlFigure:
    """A field of ``Device``."""

    field: str
    most: float
    """Highest plausible value; a higher answer is not shown."""
    make: Callable[[Any], Any] = int


@dataclass(frozen=True, slots=True)
class Reading:
    """One question to NVML."""

    name: str
    """Name of the question; used in a note if a device does not answer it."""
    figures: tuple[NvmlFigure, ...]
    ask: Ask
    """Function that asks the question; it raises what ``Asking`` raises."""
    every_seconds: float = EACH_LOOK
    optional: bool = True
    """Whether many boards do not support the question, so that a missing answer is not reported."""
    given: str = ""
    """Field of ``Device``. If an earlier answer of the same sample already has this field, the question is
    not asked."""


def _one(
    name: str,
    figure: NvmlFigure,
    function: str,
    *constants: str,
    every: float = EACH_LOOK,
    usual: bool = False,
) -> Reading:
    return Reading(name, (figure,), questions.call(function, *constants), every, optional=not usual)


def _percent(field: str) -> NvmlFigure:
    return NvmlFigure(field, _PERCENT, float)


READINGS: Final = (
    Reading(
        "utilization",
        (_percent("utilization_percent"), _percent("memory_utilization_percent")),
        questions.utilization,
        optional=False,
    ),
    Reading(
        "memory",
        (NvmlFigure("memory_used_bytes", _BYTES), NvmlFigure("memory_total_bytes", _BYTES)),
        questions.memory,
        optional=False,
    ),
    _one("power", NvmlFigure("power_watts", _MILLIWATTS, _watts), "nvmlDeviceGetPowerUsage", usual=True),
    _one(
        "temperature",
        NvmlFigure("temperature_celsius", _CELSIUS, float),
        *("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
        usual=True,
    ),
    _one("SM clock", NvmlFigure("sm_clock_mhz", _MHZ), "nvmlDeviceGetClockInfo", "NVML_CLOCK_SM", usual=True),
    Reading(
        "throttle reasons",
        (NvmlFigure("throttle_reasons", _TOTAL, throttle_reasons),),
        questions.reasons,
        optional=False,
    ),
    *(
        Reading(
            f"time throttled by {name}",
            (NvmlFigure(field, _TOTAL),),
            questions.held(policy),
            optional=optional,
        )
        for name, field, policy, optional in (
            ("power", "power_held_ns", "NVML_PERF_POLICY_POWER", False),
            ("temperature", "thermal_held_ns", "NVML_PERF_POLICY_THERMAL", False),
            ("sync boost", "sync_boost_held_ns", "NVML_PERF_POLICY_SYNC_BOOST", True),
            ("board limit", "board_limit_held_ns", "NVML_PERF_POLICY_BOARD_LIMIT", True),
            ("reliability", "reliability_held_ns", "NVML_PERF_POLICY_RELIABILITY", True),
        )
    ),
    Reading(
        "time throttled by each slowdown",
        (
            NvmlFigure("software_thermal_held_ns", _TOTAL),
            NvmlFigure("hardware_thermal_held_ns", _TOTAL),
            NvmlFigure("power_brake_held_ns", _TOTAL),
        ),
        questions.fields("software thermal", "hardware thermal", "power brake"),
    ),
    _one("energy", NvmlFigure("energy_millijoules", _TOTAL), "nvmlDeviceGetTotalEnergyConsumption"),
    Reading(
        "NVLink traffic",
        (
            NvmlFigure("nvlink_rx_bytes", _TOTAL),
            NvmlFigure("nvlink_tx_bytes", _TOTAL),
            NvmlFigure("nvlink_errors", _TOTAL),
        ),
        questions.traffic,
    ),
    _one("PCIe replays", NvmlFigure("pcie_replays", _TOTAL), "nvmlDeviceGetPcieReplayCounter", usual=True),
    *(
        Reading(
            f"{name} ECC errors",
            (NvmlFigure(f"ecc_{name}", _TOTAL),),
            questions.ecc_errors(f"NVML_MEMORY_ERROR_TYPE_{name.upper()}", "NVML_VOLATILE_ECC"),
            optional=False,
        )
        for name in ("corrected", "uncorrected")
    ),
    Reading(
        "PCIe throughput",
        (NvmlFigure("pcie_rx_bytes_per_second", _BYTES), NvmlFigure("pcie_tx_bytes_per_second", _BYTES)),
        questions.pcie_throughput,
        SOON,
        given="pcie_rx_bytes_per_second",
    ),
    _one(
        "PCIe generation",
        NvmlFigure("pcie_generation", 64),
        "nvmlDeviceGetCurrPcieLinkGeneration",
        every=SOON,
        usual=True,
    ),
    _one(
        "PCIe width", NvmlFigure("pcie_width", 256), "nvmlDeviceGetCurrPcieLinkWidth", every=SOON, usual=True
    ),
    *(
        Reading(
            f"{name} utilization",
            (_percent(f"{name}_percent"),),
            questions.first(f"nvmlDeviceGet{name.capitalize()}Utilization"),
            SOON,
        )
        for name in ("encoder", "decoder")
    ),
    Reading(
        "JPEG decoder utilization",
        (_percent("jpeg_percent"),),
        questions.first("nvmlDeviceGetJpgUtilization"),
        SOON,
    ),
    _one(
        "memory clock",
        NvmlFigure("memory_clock_mhz", _MHZ),
        *("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
        every=SOON,
    ),
    _one(
        "video clock",
        NvmlFigure("video_clock_mhz", _MHZ),
        *("nvmlDeviceGetClockInfo", "NVML_CLOCK_VIDEO"),
        every=SOON,
    ),
    _one(
        "performance state", NvmlFigure("performance_state", 15), "nvmlDeviceGetPerformanceState", every=SOON
    ),
    Reading(
        "memory temperature",
        (NvmlFigure("memory_temperature_celsius", _CELSIUS, float),),
        questions.fields("memory temperature"),
        SOON,
    ),
    Reading(
        "thermal margin",
        (NvmlFigure("thermal_margin_celsius", _CELSIUS, float),),
        questions.thermal_margin,
        SOON,
    ),
    Reading("fans", (_percent("fan_percent"),), questions.fans, SELDOM),
    Reading(
        "remapped rows",
        (
            NvmlFigure("remapped_corrected", _SMALL),
            NvmlFigure("remapped_uncorrected", _SMALL),
            NvmlFigure("remap_pending", 1, bool),
            NvmlFigure("remap_failed", 1, bool),
        ),
        questions.remapped,
        SELDOM,
        optional=False,
    ),
    Reading(
        "retired pages",
        (NvmlFigure("retired_pages", _SMALL), NvmlFigure("retirement_pending", 1, bool)),
        questions.retired,
        SELDOM,
    ),
    Reading(
        "BAR1 memory",
        (NvmlFigure("bar1_used_bytes", _BYTES), NvmlFigure("bar1_total_bytes", _BYTES)),
        questions.bar1,
        SELDOM,
    ),
    Reading(
        "NVLinks", (NvmlFigure("nvlinks", 64), NvmlFigure("nvlinks_active", 64)), questions.links, SELDOM
    ),
    *(
        Reading(
            f"{name} ECC errors, lifetime total",
            (NvmlFigure(f"ecc_{name}_lifetime", _TOTAL),),
            questions.ecc_errors(f"NVML_MEMORY_ERROR_TYPE_{name.upper()}", "NVML_AGGREGATE_ECC"),
            SELDOM,
        )
        for name in ("corrected", "uncorrected")
    ),
    _one(
        "power limit",
        NvmlFigure("power_limit_watts", _MILLIWATTS, _watts),
        "nvmlDeviceGetEnforcedPowerLimit",
        every=STEADY,
        usual=True,
    ),
    _one(
        "highest SM clock",
        NvmlFigure("sm_clock_max_mhz", _MHZ),
        *("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"),
        every=STEADY,
        usual=True,
    ),
    _one(
        "highest PCIe generation",
        NvmlFigure("pcie_generation_max", 64),
        "nvmlDeviceGetMaxPcieLinkGeneration",
        every=STEADY,
        usual=True,
    ),
    _one(
        "greatest PCIe width",
        NvmlFigure("pcie_width_max", 256),
        "nvmlDeviceGetMaxPcieLinkWidth",
        every=STEADY,
        usual=True,
    ),
    *(
        _one(
            f"highest {name} clock",
            NvmlFigure(f"{name}_clock_max_mhz", _MHZ),
            *("nvmlDeviceGetMaxClockInfo", constant),
            every=STEADY,
        )
        for name, constant in (("memory", "NVML_CLOCK_MEM"), ("video", "NVML_CLOCK_VIDEO"))
    ),
    _one(
        "default power limit",
        NvmlFigure("power_limit_default_watts", _MILLIWATTS, _watts),
        "nvmlDeviceGetPowerManagementDefaultLimit",
        every=STEADY,
    ),
    Reading(
        "highest power limit",
        (NvmlFigure("power_limit_max_watts", _MILLIWATTS, _watts),),
        questions.largest("nvmlDeviceGetPowerManagementLimitConstraints"),
        STEADY,
    ),
    *(
        _one(
            f"temperature of {name}",
            NvmlFigure(f"{name}_celsius", _CELSIUS, float),
            *("nvmlDeviceGetTemperatureThreshold", f"NVML_TEMPERATURE_THRESHOLD_{name.upper()}"),
            every=STEADY,
        )
        for name in ("slowdown", "shutdown")
    ),
    Reading("ECC mode", (NvmlFigure("ecc", 1, bool),), questions.first("nvmlDeviceGetEccMode"), STEADY),
    _one(
        "persistence mode", NvmlFigure("persistence", 1, bool), "nvmlDeviceGetPersistenceMode", every=STEADY
    ),
    _one(
        "compute mode",
        NvmlFigure("compute_mode", 255, _named(COMPUTE_MODES)),
        "nvmlDeviceGetComputeMode",
        every=SELDOM,
    ),
    _one(
        "virtualization mode",
        NvmlFigure("virtualization", 255, _named(VIRTUALIZATION_MODES)),
        "nvmlDeviceGetVirtualizationMode",
        every=STEADY,
    ),
    _one("minor number", NvmlFigure("minor", _SMALL), "nvmlDeviceGetMinorNumber", every=STEADY),
)
"""Questions in the order in which they are asked, the most important first."""
