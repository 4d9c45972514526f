"""Compares each GPU's figures of ``nvidia-smi -q -x`` with those of ``DeviceReader``."""

from __future__ import annotations

import xml.etree.ElementTree as Xml
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from stalltop.model.devices.device import DEVICE_FIGURES, Device, DeviceFigure

_MIB: Final = 1 << 20


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
    """Allowed difference as a share of the larger of the two values. It replaces ``apart`` if it allows
    more."""


_SCALES: Final = {"B": _MIB, "B/s": 1000}
"""By unit of a ``DeviceFigure``: the factor that converts nvidia-smi's value into this unit."""
_STEADY: Final[dict[str, float]] = {"B": _MIB, "W": 1}
"""By unit: the allowed difference of figures of the board, which nvidia-smi rounds."""
_MOVING: Final = {"%": 15, "B": 64 * _MIB, "C": 6, "B/s": 1e9}
"""By unit: the allowed difference of all other figures, which change between the two readings."""
_SHARES: Final = {"W": 0.1, "MHz": 0.1}
"""By unit: the allowed difference of these other figures as a share of the larger value."""
_APART: Final[dict[str, float]] = {"performance_state": 8, "pcie_generation": 4, "fan_percent": 20}
"""Allowed differences of some figures, by name. They replace the difference that is allowed for the figure's
unit."""


def _figure(figure: DeviceFigure) -> SmiFigure:
    if figure.kind == "bool":
        return SmiFigure(figure.name, figure.smi, _flag)
    by_unit, share = (_STEADY, 0.0) if figure.of_board else (_MOVING, _SHARES.get(figure.unit, 0.0))
    apart = _APART.get(figure.name, by_unit.get(figure.unit, 0.0))
    return SmiFigure(figure.name, figure.smi, number, _SCALES.get(figure.unit, 1.0), apart, share)


FIGURES: Final = (
    SmiFigure("uuid", ("uuid",), str),
    SmiFigure("name", ("product_name",), str),
    SmiFigure("pci_bus_id", ("pci/pci_bus_id",), str),
    SmiFigure("compute_mode", ("compute_mode",), _mode),
    SmiFigure("virtualization", ("gpu_virtualization_mode/virtualization_mode",), _VIRTUAL.get),
    *(_figure(one) for one in DEVICE_FIGURES if one.smi),
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
    answer that nvidia-smi gave after ``devices`` were read: a value of ``devices`` may then lie between those
    of the two answers. Raises ValueError if an answer lacks a GPU."""
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
