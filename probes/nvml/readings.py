"""Lists what is read of each GPU through NVML: the call and the interval of each figure, and its highest
plausible value.

The one table is ``READINGS``. Numbers are the driver's own: totals since it was loaded, milliwatts, bits.
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
"""Seconds between two readings of figures that hardly ever change; these are reported without an age."""
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

Left out, since they are no fault: 0x001 idle, 0x002 clocks chosen for applications, 0x100 display clocks.
"""
COMPUTE_MODES: Final = ("default", "exclusive thread", "prohibited", "exclusive process")
"""Names by number in nvml.h (nvmlComputeMode_t)."""
VIRTUALIZATION_MODES: Final = ("none", "passthrough", "vGPU", "vGPU host", "vSGA host")
"""Names by number in nvml.h (nvmlGpuVirtualizationMode_t)."""


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """Returns the names of the throttle reasons in ``bits``, and the number of an unknown bit."""
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
    """Highest plausible value; an answer above it is not shown."""
    make: Callable[[Any], Any] = int


@dataclass(frozen=True, slots=True)
class Reading:
    """One question to NVML."""

    name: str
    """Name in the notes of a device that does not answer it."""
    figures: tuple[Figure, ...]
    ask: Ask
    """Function that asks it; raises what ``Asking`` does."""
    every_seconds: float = EACH_LOOK
    optional: bool = True
    """Whether many boards do not support it, so that its absence is not reported."""
    given: str = ""
    """Field that makes the question unnecessary if it is known already."""


def _one(
    name: str, figure: Figure, function: str, *constants: str, every: float = EACH_LOOK, usual: bool = False
) -> Reading:
    return Reading(name, (figure,), questions.call(function, *constants), every, optional=not usual)


def _percent(field: str) -> Figure:
    return Figure(field, _PERCENT, float)


READINGS: Final = (
    Reading(
        "utilization",
        (_percent("utilization_percent"), _percent("memory_utilization_percent")),
        questions.utilization,
        optional=False,
    ),
    Reading(
        "memory",
        (Figure("memory_used_bytes", _BYTES), Figure("memory_total_bytes", _BYTES)),
        questions.memory,
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
        questions.reasons,
        optional=False,
    ),
    *(
        Reading(f"time held by {name}", (Figure(field, _TOTAL),), questions.held(policy), optional=optional)
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
        questions.fields("software thermal", "hardware thermal", "power brake"),
    ),
    _one("energy", Figure("energy_millijoules", _TOTAL), "nvmlDeviceGetTotalEnergyConsumption"),
    Reading(
        "NVLink traffic",
        (
            Figure("nvlink_rx_bytes", _TOTAL),
            Figure("nvlink_tx_bytes", _TOTAL),
            Figure("nvlink_errors", _TOTAL),
        ),
        questions.traffic,
    ),
    _one("PCIe replays", Figure("pcie_replays", _TOTAL), "nvmlDeviceGetPcieReplayCounter", usual=True),
    *(
        Reading(
            f"{name} ECC errors",
            (Figure(f"ecc_{name}", _TOTAL),),
            questions.ecc_errors(f"NVML_MEMORY_ERROR_TYPE_{name.upper()}", "NVML_VOLATILE_ECC"),
            optional=False,
        )
        for name in ("corrected", "uncorrected")
    ),
    Reading(
        "PCIe throughput",
        (Figure("pcie_rx_bytes_per_second", _BYTES), Figure("pcie_tx_bytes_per_second", _BYTES)),
        questions.pcie_throughput,
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
            questions.first(f"nvmlDeviceGet{name.capitalize()}Utilization"),
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
        questions.fields("memory temperature"),
        SOON,
    ),
    Reading("fans", (_percent("fan_percent"),), questions.fans, SELDOM),
    Reading(
        "remapped rows",
        (
            Figure("remapped_corrected", _SMALL),
            Figure("remapped_uncorrected", _SMALL),
            Figure("remap_pending", 1, bool),
            Figure("remap_failed", 1, bool),
        ),
        questions.remapped,
        SELDOM,
        optional=False,
    ),
    Reading(
        "retired pages",
        (Figure("retired_pages", _SMALL), Figure("retirement_pending", 1, bool)),
        questions.retired,
        SELDOM,
    ),
    Reading(
        "BAR1 memory",
        (Figure("bar1_used_bytes", _BYTES), Figure("bar1_total_bytes", _BYTES)),
        questions.bar1,
        SELDOM,
    ),
    Reading("NVLinks", (Figure("nvlinks", 64), Figure("nvlinks_active", 64)), questions.links, SELDOM),
    *(
        Reading(
            f"{name} ECC errors of its lifetime",
            (Figure(f"ecc_{name}_lifetime", _TOTAL),),
            questions.ecc_errors(f"NVML_MEMORY_ERROR_TYPE_{name.upper()}", "NVML_AGGREGATE_ECC"),
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
    Reading("ECC mode", (Figure("ecc", 1, bool),), questions.first("nvmlDeviceGetEccMode"), STEADY),
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
"""Questions in the order in which they are asked, the most important first."""
