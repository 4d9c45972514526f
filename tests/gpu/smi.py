"""Compares each GPU's figures of ``nvidia-smi -q -x`` with those of ``DeviceReader``."""

from __future__ import annotations

import xml.etree.ElementTree as Xml
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from stalltop.model.devices.device import Device

_KIB, _MIB = 1 << 10, 1 << 20


def number(text: str) -> float | None:
    """Parse ``81559 MiB``, ``34 C``, ``P2``, ``16x`` or ``2000 KB/s``; return None for ``N/A``."""
    digits = text.split()[0].strip("Px") if text.split() else ""
    try:
        return float(digits)
    except ValueError:
        return None


def _flag(text: str) -> bool | None:
    return {"Enabled": True, "Yes": True, "Disabled": False, "No": False}.get(text)


def _mode(text: str) -> str | None:
    return None if text == "N/A" else text.replace("_", " ").lower()


_VIRTUAL: Final = {
    "None": "none",
    "Pass-Through": "passthrough",
    "VGPU": "vGPU",
    "Host VGPU": "vGPU host",
    "Host VSGA": "vSGA host",
}


@dataclass(frozen=True, slots=True)
class SmiFigure:
    """A figure that both nvidia-smi and ``DeviceReader`` report, and how far the two values may differ."""

    field: str
    """Name of the field of ``Device``."""
    paths: tuple[str, ...]
    """Paths of the figure in nvidia-smi's XML. Drivers use different paths; the first one with a value
    counts."""
    read: Callable[[str], Any] = number
    scale: float = 1.0
    apart: float = 0.0
    """Allowed difference in the unit of the field, because the figure may change between the two readings."""
    share: float = 0.0
    """Allowed difference as a share of the largest value, if that is more than ``apart``."""


def _moving(field: str, *paths: str, scale: float = 1.0, apart: float = 0.0, share: float = 0.0) -> SmiFigure:
    return SmiFigure(field, paths, number, scale, apart, share)


FIGURES: Final = (
    SmiFigure("uuid", ("uuid",), str),
    SmiFigure("name", ("product_name",), str),
    SmiFigure("pci_bus_id", ("pci/pci_bus_id",), str),
    SmiFigure("minor", ("minor_number",)),
    SmiFigure("persistence", ("persistence_mode",), _flag),
    SmiFigure("compute_mode", ("compute_mode",), _mode),
    SmiFigure("virtualization", ("gpu_virtualization_mode/virtualization_mode",), _VIRTUAL.get),
    SmiFigure("mig", ("mig_mode/current_mig",), _flag),
    SmiFigure("ecc", ("ecc_mode/current_ecc",), _flag),
    _moving("performance_state", "performance_state", apart=8),
    _moving("utilization_percent", "utilization/gpu_util", apart=15),
    _moving("memory_utilization_percent", "utilization/memory_util", apart=15),
    _moving("encoder_percent", "utilization/encoder_util", apart=15),
    _moving("decoder_percent", "utilization/decoder_util", apart=15),
    _moving("jpeg_percent", "utilization/jpeg_util", apart=15),
    _moving("memory_used_bytes", "fb_memory_usage/used", scale=_MIB, apart=64 * _MIB),
    _moving("memory_total_bytes", "fb_memory_usage/total", scale=_MIB, apart=_MIB),
    _moving("bar1_used_bytes", "bar1_memory_usage/used", scale=_MIB, apart=16 * _MIB),
    _moving("bar1_total_bytes", "bar1_memory_usage/total", scale=_MIB, apart=_MIB),
    _moving(
        "power_watts",
        "gpu_power_readings/power_draw",
        "gpu_power_readings/average_power_draw",
        "gpu_power_readings/instant_power_draw",
        "power_readings/power_draw",
        share=0.1,
    ),
    _moving(
        "power_limit_watts",
        "gpu_power_readings/current_power_limit",
        "power_readings/enforced_power_limit",
        apart=1,
    ),
    _moving(
        "power_limit_default_watts",
        "gpu_power_readings/default_power_limit",
        "power_readings/default_power_limit",
        apart=1,
    ),
    _moving("temperature_celsius", "temperature/gpu_temp", apart=6),
    _moving("memory_temperature_celsius", "temperature/memory_temp", apart=6),
    _moving("slowdown_celsius", "temperature/gpu_temp_slow_threshold"),
    _moving("shutdown_celsius", "temperature/gpu_temp_max_threshold"),
    _moving("fan_percent", "fan_speed", apart=20),
    _moving("sm_clock_mhz", "clocks/sm_clock", share=0.1),
    _moving("memory_clock_mhz", "clocks/mem_clock", share=0.1),
    _moving("video_clock_mhz", "clocks/video_clock", share=0.1),
    _moving("sm_clock_max_mhz", "max_clocks/sm_clock"),
    _moving("memory_clock_max_mhz", "max_clocks/mem_clock"),
    _moving("video_clock_max_mhz", "max_clocks/video_clock"),
    _moving("pcie_generation", "pci/pci_gpu_link_info/pcie_gen/current_link_gen", apart=4),
    _moving("pcie_generation_max", "pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
    _moving("pcie_width", "pci/pci_gpu_link_info/link_widths/current_link_width"),
    _moving("pcie_width_max", "pci/pci_gpu_link_info/link_widths/max_link_width"),
    _moving("pcie_rx_bytes_per_second", "pci/rx_util", scale=1000, apart=1e9),
    _moving("pcie_tx_bytes_per_second", "pci/tx_util", scale=1000, apart=1e9),
    _moving("remapped_corrected", "remapped_rows/remapped_row_corr"),
    _moving("remapped_uncorrected", "remapped_rows/remapped_row_unc"),
    SmiFigure("remap_pending", ("remapped_rows/remapped_row_pending",), _flag),
    SmiFigure("remap_failed", ("remapped_rows/remapped_row_failure",), _flag),
)
"""All figures that can be compared. Counters (violations, energy, NVLink, ECC) are left out: nvidia-smi does
not report them, or counts in another way."""


@dataclass(frozen=True, slots=True)
class SmiPair:
    """One figure of one GPU: the value of ``DeviceReader`` (``ours``) and that of nvidia-smi (``theirs``)."""

    gpu: int
    field: str
    ours: Any
    theirs: Any
    agree: bool

    def __str__(self) -> str:
        sign = "  " if self.agree else "! "
        return f"{sign}GPU {self.gpu} {self.field:28} {self.ours!s:>24} {self.theirs!s:>24}"


def compare(devices: tuple[Device, ...], answer: str, later: str = "") -> Iterator[SmiPair]:
    """Yield a pair for every figure of ``devices`` that nvidia-smi's ``answer`` (XML) has. ``later`` is an
    answer that nvidia-smi gave after ``devices`` were read: a value of ours may then lie between both
    answers. Raises ValueError if an answer lacks a GPU."""
    answers = [_by_uuid(answer), *([_by_uuid(later)] if later else [])]
    for device in devices:
        if any(device.uuid not in theirs for theirs in answers):
            raise ValueError(f"nvidia-smi knows no {device.uuid}")
        for figure in FIGURES:
            told = [_told(theirs[device.uuid], figure) for theirs in answers]
            if None not in told:
                ours = getattr(device, figure.field)
                yield SmiPair(device.index, figure.field, ours, told[0], _agree(figure, ours, told))


def _by_uuid(answer: str) -> dict[str, Xml.Element]:
    return {gpu.findtext("uuid", ""): gpu for gpu in Xml.fromstring(answer).findall("gpu")}


def processes(answer: str) -> dict[str, set[int]]:
    """Return the PIDs of the processes that nvidia-smi's ``answer`` lists on each GPU, by the GPU's UUID."""
    return {
        gpu.findtext("uuid", ""): {int(pid.text or 0) for pid in gpu.findall("processes/process_info/pid")}
        for gpu in Xml.fromstring(answer).findall("gpu")
    }


def _told(gpu: Xml.Element, figure: SmiFigure) -> Any:
    for path in figure.paths:
        text = (gpu.findtext(path) or "").strip()
        value = figure.read(text) if text else None
        if value is not None:
            return value * figure.scale if isinstance(value, float) else value
    return None


def _agree(figure: SmiFigure, ours: Any, theirs: list[Any]) -> bool:
    if ours is None or isinstance(theirs[0], (str, bool)):
        return ours in theirs
    apart = max(figure.apart, figure.share * max(abs(ours), *map(abs, theirs)))
    return bool(min(theirs) - apart <= ours <= max(theirs) + apart)
