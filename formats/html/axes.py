"""Axes of charts: where ticks and values are, and how ticks are labelled."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stalltop.model.text import figures

_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 2_419_200),
)
"""Possible distances between two ticks of a time axis, in seconds."""
_MINUTE: Final = 60
_DAY: Final = 86_400
_SECOND_NS: Final = 1e9


@dataclass(frozen=True, slots=True)
class AxisTick:
    """A mark on an axis."""

    at: float
    """Position on the axis, 0 to 1."""
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values to positions from 0 to 1."""

    ticks: tuple[AxisTick, ...]
    place: Callable[[float], float]
    """Returns the position of a value. A value beyond an end of the axis is placed at that end."""


def _bounded(at: float) -> float:
    return min(max(at, 0.0), 1.0)


def time_axis(start: float, end: float, most: int) -> Axis:
    """Return an axis from ``start`` to ``end`` (Unix seconds) with at most ``most`` + 1 ticks, in local
    time."""
    span = max(end - start, 1e-3)
    step = next(
        (step for step in _STEPS if span / step <= most), _STEPS[-1] * math.ceil(span / _STEPS[-1] / most)
    )
    # Ticks are at whole hours and days of local time, not of UTC.
    shift = time.localtime(start).tm_gmtoff or 0
    first = math.ceil((start + shift) / step) * step - shift
    ticks: list[AxisTick] = []
    at = float(first)
    while at <= end and len(ticks) <= most:
        ticks.append(AxisTick(_bounded((at - start) / span), _clock(at, step)))
        at += step
    return Axis(tuple(ticks), lambda value: _bounded((value - start) / span))


def _clock(at: float, step: float) -> str:
    form = "%H:%M:%S" if step < _MINUTE else "%H:%M" if step < _DAY else "%d %b"
    return time.strftime(form, time.localtime(at))


def linear_axis(highest: float, most: int, shown: Callable[[float], str]) -> Axis:
    """Return an axis from zero to a round number that is at least ``highest``, with about ``most`` ticks.

    ``shown`` returns the label of a tick.
    """
    top = highest if highest > 0 and math.isfinite(highest) else 1.0
    rough = top / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((power * factor for factor in (1, 2, 5) if power * factor >= rough * 0.999), power * 10)
    count = max(math.ceil(top / step - 1e-9), 1)
    top = count * step
    ticks = tuple(AxisTick(number / count, shown(number * step).strip()) for number in range(count + 1))
    return Axis(ticks, lambda value: _bounded(value / top))


def duration_axis(lowest_ns: float, highest_ns: float) -> Axis:
    """Return a logarithmic axis of durations (ns), which begins and ends at powers of ten."""
    low = math.floor(math.log10(max(lowest_ns, 1.0)))
    high = max(math.ceil(math.log10(max(highest_ns, 1.0)) - 1e-9), low + 1)
    ticks = tuple(
        AxisTick((power - low) / (high - low), _duration(10.0**power)) for power in range(low, high + 1)
    )
    return Axis(
        ticks,
        lambda value: _bounded((math.log10(max(value, 1e-9)) - low) / (high - low)) if value > 0 else 0.0,
    )


def _duration(ns: float) -> str:
    """Return the label of ``ns``, a power of ten, without decimals."""
    if ns > _SECOND_NS:
        return f"{ns / _SECOND_NS:.0f}s"
    return figures.duration(ns).strip().replace(".00", "").replace(".0", "")
