"""Charts as inline SVG without scripts.

A chart is drawn in ``WIDTH`` x ``HEIGHT`` units, which the browser scales. Its colours come from the style
sheet of the page, which is light or dark. Each chart also says as text what it shows, for screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.formats.html.axes import Axis, AxisTick, duration_axis
from stalltop.formats.html.tags import Html, joined, tag
from stalltop.model.histograms.hdr import highest_ns, lowest_ns

WIDTH: Final = 640
HEIGHT: Final = 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 10, 8, 22
_BARS: Final = 64
"""Number of bars in a chart of durations."""


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """The value of a line in one stretch of time (Unix seconds); the value is None if it is not known."""

    start: float
    end: float
    value: float | None


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a chart."""

    name: str
    style: str
    """A class of the style sheet: p50, p99, max or area."""
    points: Sequence[ChartPoint]


def _x(at: float) -> str:
    return f"{_LEFT + at * (WIDTH - _LEFT - _RIGHT):.1f}"


def _y(at: float) -> str:
    return f"{HEIGHT - _BOTTOM - at * (HEIGHT - _TOP - _BOTTOM):.1f}"


def over_time(
    series: Sequence[ChartLine],
    times: Axis,
    values: Axis,
    *,
    told: str,
    dots: Sequence[tuple[float, float, str]] = (),
) -> Html:
    """Return a chart of lines over time. A line has gaps where its value is not known.

    ``told`` says as text what the chart shows. ``dots`` has (time, value, text) of points to draw.
    """
    lines = [
        tag("path", d=_path(one.points, times, values, closed=one.style == "area"), class_=one.style)
        for one in series
    ]
    marks = [
        tag(
            "circle",
            tag("title", what),
            cx=_x(times.place(at)),
            cy=_y(values.place(value)),
            r="2.2",
            class_="dot",
        )
        for at, value, what in dots
    ]
    return _chart(told, times.ticks, values.ticks, [*lines, *marks])


def _path(points: Sequence[ChartPoint], times: Axis, values: Axis, *, closed: bool) -> str:
    """Return the SVG path of a step line. The line has a gap where a value is not known, and where more time
    passes between two points than the later one covers."""
    parts: list[str] = []
    end: float | None = None
    began = ""
    for point in points:
        if point.value is None or not math.isfinite(point.value):
            if closed and end is not None:
                parts.append(f"V{_y(0)}H{began}")
            end = None
            continue
        x, y = _x(times.place(point.start)), _y(values.place(point.value))
        # Windows that follow each other have short pauses between them, which are not drawn as gaps.
        apart = end is None or point.start - end > max(point.end - point.start, 1e-3)
        if apart and closed and end is not None:
            parts.append(f"V{_y(0)}H{began}")
        if apart:
            began = x
            parts.append(f"M{x} {_y(0)}V{y}" if closed else f"M{x} {y}")
        else:
            parts.append(f"H{x}V{y}")
        parts.append(f"H{_x(times.place(point.end))}")
        end = point.end
    if closed and end is not None:
        parts.append(f"V{_y(0)}H{began}")
    return "".join(parts)


def distribution(
    index: NDArray[np.integer], count: NDArray[np.integer], marks: Sequence[tuple[str, float]], *, told: str
) -> Html:
    """Return a histogram of durations, with bars over a logarithmic axis. The height of a bar is the
    logarithm of its number of calls.

    ``index`` and ``count`` are the counters of the histogram: their numbers and their values. ``marks`` has
    (name, ns) of vertical lines. ``told`` says as text what the chart shows.
    """
    low, high = lowest_ns(index), highest_ns(index)
    axis = duration_axis(float(max(low[0], 1)), float(high[-1] + 1))
    middle = np.sqrt(np.maximum(low, 1).astype(np.float64) * (high + 1))
    place = np.array([axis.place(value) for value in middle.tolist()])
    bar = np.minimum((place * _BARS).astype(np.int64), _BARS - 1)
    sums = np.zeros(_BARS, np.float64)
    np.add.at(sums, bar, count.astype(np.float64))
    most = math.log10(float(sums.max()) + 1)
    width = (WIDTH - _LEFT - _RIGHT) / _BARS
    bars = [
        tag(
            "rect",
            x=_x(number / _BARS),
            y=_y(math.log10(calls + 1) / most),
            width=f"{width - 1:.1f}",
            height=f"{float(_y(0)) - float(_y(math.log10(calls + 1) / most)):.1f}",
            class_="bin",
        )
        for number, calls in enumerate(sums.tolist())
        if calls
    ]
    lines = [
        tag("path", d=f"M{_x(axis.place(value))} {_y(0)}V{_y(1)}", class_=f"mark {name}")
        for name, value in marks
        if value > 0
    ]
    powers = range(math.floor(most) + 1)
    heights = tuple(AxisTick(power / most, _power(power)) for power in powers if power / most <= 1)
    return _chart(told, axis.ticks, heights, [*bars, *lines])


def _power(power: int) -> str:
    return (
        ("1", "10", "100", "1k", "10k", "100k", "1M", "10M", "100M", "1G")[power]
        if power < 10
        else f"1e{power}"
    )


def _chart(told: str, across: Sequence[AxisTick], up: Sequence[AxisTick], content: Sequence[Html]) -> Html:
    grid = [tag("path", d="".join(f"M{_LEFT} {_y(tick.at)}H{WIDTH - _RIGHT}" for tick in up), class_="grid")]
    labels = [
        tag("text", tick.label, x=str(_LEFT - 6), y=f"{float(_y(tick.at)) + 4:.1f}", class_="up")
        for tick in up
    ]
    for tick in across:
        side = "first" if tick.at < 0.03 else "last" if tick.at > 0.97 else "across"
        labels.append(tag("text", tick.label, x=_x(tick.at), y=str(HEIGHT - 6), class_=side))
    ticks = "".join(f"M{_x(tick.at)} {_y(0)}v4" for tick in across)
    grid.append(tag("path", d=ticks, class_="grid"))
    return joined(
        Html("\n"),
        tag("svg", *grid, *content, *labels, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=told),
    )
