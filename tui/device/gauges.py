"""The gauges of a GPU, such as its temperature: their names, scales and texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stalltop.model.devices.device import Device
from stalltop.model.text import figures
from stalltop.tui.pages.sections import Frame


@dataclass(frozen=True, slots=True)
class Gauge:
    """A figure of a device that has a value at each moment, such as the temperature, unlike a counter."""

    name: str
    value: Callable[[Device], float | None]
    most: Callable[[Device], float | None]
    """Returns the end of the scale; None if it is not known."""
    text: Callable[[float | None, Frame], str]
    asked: tuple[str, ...]
    """The names of the figure in ``Device.notes``. A note tells why a figure could not be read."""
    fields: tuple[str, ...]
    """The fields of the device from which the figure is computed."""
    about: str = ""
    """What the figure means, if the name does not tell it."""


def share(used: float | None, whole: float | None) -> float | None:
    """Return ``used`` as a percentage of ``whole``; None if either is not known."""
    return 100.0 * used / whole if used is not None and whole else None


def _unit(unit: str) -> Callable[[float | None, Frame], str]:
    return lambda value, frame: frame.missing() if value is None else f"{value:.0f}{unit}"


def _percent(value: float | None, frame: Frame) -> str:
    return _unit("%")(value, frame)


def _memory(value: float | None, frame: Frame) -> str:
    return figures.memory(value, frame.glyphs).strip()


def hundred(device: Device) -> float | None:
    """Return 100, the end of a scale of percent or degrees, for any device."""
    return 100.0


GAUGES: Final = (
    Gauge(
        "busy",
        lambda device: device.utilization_percent,
        hundred,
        _percent,
        ("utilization",),
        ("utilization_percent",),
        "time in which any kernel ran",
    ),
    Gauge(
        "memory",
        lambda device: device.memory_used_bytes,
        lambda device: device.memory_total_bytes,
        _memory,
        ("memory",),
        ("memory_used_bytes",),
    ),
    Gauge(
        "memory busy",
        lambda device: device.memory_utilization_percent,
        hundred,
        _percent,
        ("utilization",),
        ("memory_utilization_percent",),
        "time in which memory was read or written",
    ),
    Gauge(
        "power",
        lambda device: device.power_watts,
        lambda device: device.power_limit_watts,
        _unit("W"),
        ("power", "power limit"),
        ("power_watts",),
    ),
    Gauge(
        "temperature",
        lambda device: device.temperature_celsius,
        hundred,
        _unit("C"),
        ("temperature",),
        ("temperature_celsius",),
    ),
    Gauge(
        "SM clock",
        lambda device: device.sm_clock_mhz,
        lambda device: device.sm_clock_max_mhz,
        _unit("MHz"),
        ("SM clock", "highest SM clock"),
        ("sm_clock_mhz",),
    ),
)
"""All gauges in the order of the page."""
