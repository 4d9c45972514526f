"""Charts of a report: calls over time, distributions of durations, containers, host and GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stalltop.formats.course import Course, CourseFigures, Name, Stretch
from stalltop.formats.html.axes import Axis, duration_axis, linear_axis
from stalltop.formats.html.charts import ChartLine, ChartPoint, distribution, over_time
from stalltop.formats.html.page import section
from stalltop.formats.html.tags import Html, tag
from stalltop.model.calls import CapturedCall
from stalltop.model.devices.device import DEVICE_FIGURE
from stalltop.model.rows.pivot import PERCENTS, Groups, bounded, pivot
from stalltop.model.text import figures
from stalltop.model.text.words import with_pid
from stalltop.model.window import Window

MOST_CHARTS: Final = 6
"""Maximum number of operations, and of containers, that have charts: those with the most time."""
SHORT_SHARE: Final = 0.1
"""Containers with calls in less than this share of the stretches of time are short-lived. They have one chart
together: each alone would have an empty one."""
MOST_DEVICES: Final = 8
"""Maximum number of GPUs that have charts."""
_DOTS: Final = 150
"""Maximum number of captured calls that a chart shows as dots."""


def _card(title: str, about: str, chart: Html, *legend: tuple[str, str]) -> Html:
    named = [tag("span", tag("i", class_=style), name) for style, name in legend]
    return tag(
        "figure",
        tag(
            "figcaption",
            tag("b", title, title=title),
            tag("span", *named, class_="legend"),
            tag("p", about),
        ),
        chart,
    )


def _grid(title: str, cards: Sequence[Html]) -> Html:
    return section(title, tag("div", *cards, class_="cards")) if cards else Html()


_LINES: Final = (("max", "longest"), ("p99", "p99"), ("p50", "p50"))


def _durations(points: Sequence[tuple[float, float, CourseFigures | None]]) -> tuple[list[ChartLine], Axis]:
    """Return lines of the median, p99 and longest duration, and an axis for them."""
    known = [one for _, _, one in points if one is not None and one.p50_ns is not None]
    low = min((one.p50_ns or 1 for one in known), default=1)
    high = max((one.max_ns or 1 for one in known), default=1)

    def line(name: str, style: str, get: Callable[[CourseFigures], int | None]) -> ChartLine:
        return ChartLine(
            name, style, [ChartPoint(a, b, None if one is None else get(one)) for a, b, one in points]
        )

    series = [
        line("longest", "max", lambda one: one.max_ns),
        line("p99", "p99", lambda one: one.p99_ns),
        line("p50", "p50", lambda one: one.p50_ns),
    ]
    return series, duration_axis(float(low), float(high))


def _told(groups: Groups, at: int) -> str:
    """Return the number of calls and the percentiles of a group as a line of text."""
    p50, p99 = int(groups.p50_ns[at]), int(groups.p99_ns[at])
    what = "times" if groups.between[at] else "calls"
    return (
        f"{figures.count(int(groups.calls[at])).strip()} {what}, p50 {figures.duration(p50).strip()}, "
        f"p99 {figures.duration(p99).strip()}, longest {figures.duration(int(groups.max_ns[at])).strip()}"
    )


def _ordered(groups: Groups) -> list[int]:
    """Return the indices of the groups with calls: first outermost calls, then the time between calls; each
    sorted by time."""
    order = np.lexsort((groups.total_ns, ~groups.between))[::-1].tolist()
    return [at for at in order if groups.calls[at] and not groups.nested[at]]


def latency(course: Course, whole: Window, times: Axis | None, of: str) -> Html:
    """Return charts of the operations with the most time. They show durations over time; charts of all calls
    together come first. If ``times`` is None, they show the distribution of the durations of each operation,
    and there are no charts of all calls. The title ends with ``of``."""
    cards = [] if times is None else _together(course, times)
    groups = pivot(whole, ("operation", "layer"))
    for at in _ordered(groups)[:MOST_CHARTS]:
        name: Name = groups.keys[at]
        title, about = f"{name[0]} ({name[1]})", _told(groups, at)
        if times is not None:
            points = [(one.start, one.end, one.operations.get(name)) for one in course.stretches]
            series, axis = _durations(points)
            dots = _dots(whole, name)
            chart = over_time(series, times, axis, told=f"{title} over time: {about}", dots=dots)
            kept = [("dot", "captured calls")] if dots else []
            cards.append(_card(title, about, chart, *_LINES, *kept))
        else:
            cards.append(_card(title, about, _spread(groups, at, f"{title}: {about}"), *_MARKS))
    return _grid(("How long calls took" if times is None else "Calls over time") + of, cards)


def _dots(whole: Window, name: Name) -> list[tuple[float, float, str]]:
    calls = [call for call in whole.calls.kept if (call.operation, call.layer) == name]
    calls = sorted(calls, key=lambda call: -call.duration_ns)[:_DOTS]
    return [(call.start_ns / 1e9, call.duration_ns, _call_told(call)) for call in calls]


def _call_told(call: CapturedCall) -> str:
    who = f"{with_pid(call.process, call.pid)}, thread {call.tid}"
    return f"{figures.clock(call.start_ns / 1e9)}  {figures.duration(call.duration_ns).strip()}  {who}"


_MARKS: Final = (("p50", "p50"), ("p95", "p95"), ("p99", "p99"), ("max", "longest"))


def _spread(groups: Groups, at: int, told: str) -> Html:
    row = groups.histograms.take(np.array([at]))
    percentiles = bounded(row.percentiles(PERCENTS), groups.max_ns[at : at + 1])[0].tolist()
    values = [*percentiles, int(groups.max_ns[at])]
    marks = [(name, float(value)) for (name, _), value in zip(_MARKS, values, strict=True)]
    return distribution(row.index, row.count, marks, told=told)


def _together(course: Course, times: Axis) -> list[Html]:
    """Return charts of the rate and of the durations of all outermost calls together."""
    stretches = course.stretches
    rates = [ChartPoint(one.start, one.end, one.outermost.calls_per_s) for one in stretches]
    axis = linear_axis(max((one.value or 0.0 for one in rates), default=0.0), 4, figures.rate)
    chart = over_time([ChartLine("calls", "area", rates)], times, axis, told="calls a second over time")
    cards = [_card("calls a second", "outermost calls of all containers", chart)]
    series, durations = _durations([(one.start, one.end, one.outermost) for one in stretches])
    chart = over_time(series, times, durations, told="how long calls took over time")
    return [*cards, _card("how long all calls took", "logarithmic", chart, *_LINES)]


def containers(course: Course, whole: Window, times: Axis, of: str) -> Html:
    """Return charts of the durations of calls over time, one for each of the containers with the most time in
    calls, and one chart for all short-lived containers."""
    groups = pivot(whole, ("container",))
    lived = Counter(
        name for one in course.stretches for name, found in one.containers.items() if found.max_ns
    )
    order = _ordered(groups)
    short = [at for at in order if lived[groups.keys[at]] < SHORT_SHARE * len(course.stretches)]
    if len(short) < 2:
        short = []
    cards = []
    for at in [at for at in order if at not in set(short)][:MOST_CHARTS]:
        points = [(one.start, one.end, one.containers.get(groups.keys[at])) for one in course.stretches]
        series, axis = _durations(points)
        title, about = groups.labels[at][0], _told(groups, at)
        cards.append(
            _card(title, about, over_time(series, times, axis, told=f"{title} over time: {about}"), *_LINES)
        )
    if short:
        cards.append(_short_lived(course, groups, short, times))
    return _grid("Containers over time" + of, cards)


def _short_lived(course: Course, groups: Groups, short: Sequence[int], times: Axis) -> Html:
    """Return a chart of the calls per second of the containers at the indices ``short``, together."""
    names = {groups.keys[at] for at in short}
    rates = [
        ChartPoint(
            one.start,
            one.end,
            sum(found.calls_per_s for name, found in one.containers.items() if name in names),
        )
        for one in course.stretches
    ]
    axis = linear_axis(max((one.value or 0.0 for one in rates), default=0.0), 4, figures.rate)
    title = f"{len(short):,} short-lived containers: calls a second"
    calls, longest = int(groups.calls[short].sum()), int(groups.max_ns[short].max())
    about = (
        f"each with calls in less than {SHORT_SHARE:.0%} of this time; together "
        f"{figures.count(calls).strip()} calls, longest {figures.duration(longest).strip()}"
    )
    chart = over_time([ChartLine("calls", "area", rates)], times, axis, told=f"{title} over time: {about}")
    return _card(title, about, chart)


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure of a GPU or of the host that has a chart over time."""

    title: str
    unit: str
    get: Callable[[Any], float | None]
    most: Callable[[Any], float | None]
    """Returns the end of the scale, taken from a sample of the host or GPU; None if it is not known."""
    per: float = 1.0
    """Number by which a measured value is divided so that the result is in ``unit``."""
    limited: bool = False
    """True if the end of the scale is a limit of the host or device. The text of the chart then states it."""


_GIB: Final = 2.0**30
_HOST: Final = (
    _Figure("CPUs busy", "%", lambda system: system.cpu_percent, lambda system: 100.0),
    _Figure(
        "memory used",
        "GiB",
        lambda system: system.memory_used_bytes,
        lambda system: system.memory_total_bytes,
        _GIB,
        limited=True,
    ),
)


def _of_device(name: str) -> _Figure:
    figure = DEVICE_FIGURE[name]
    unit, per = figure.chart_unit
    return _Figure(figure.label, unit, figure.value, figure.end, per, isinstance(figure.most, str))


_DEVICE: Final = tuple(
    map(
        _of_device,
        ("utilization_percent", "memory_used_bytes", "power_watts", "temperature_celsius", "sm_clock_mhz"),
    )
)


def machine(course: Course, times: Axis, of: str) -> Html:
    """Return charts of the CPUs, the memory and the GPUs of the host."""
    stretches = course.stretches
    found: list[tuple[_Figure, str, list[Any]]] = [
        (figure, "", [one.system for one in stretches]) for figure in _HOST
    ]
    devices = {device.uuid: device for one in stretches for device in one.devices}
    for uuid, device in sorted(devices.items(), key=lambda item: item[1].index)[:MOST_DEVICES]:
        looks = [next((one for one in each.devices if one.uuid == uuid), None) for each in stretches]
        found += [(figure, f"GPU {device.index} {device.name}: ", looks) for figure in _DEVICE]
    cards = [_machine_card(figure, name, looks, stretches, times) for figure, name, looks in found]
    return _grid("Host and GPUs" + of, [card for card in cards if card])


def _machine_card(
    figure: _Figure, name: str, looks: Sequence[Any], stretches: Sequence[Stretch], times: Axis
) -> Html:
    """Return a chart of one figure over time; '' if the figure was never known. ``looks`` has a sample of the
    host or device for each stretch of time; None if a stretch has none."""
    values = [None if look is None else figure.get(look) for look in looks]
    known = [value / figure.per for value in values if value is not None]
    if not known:
        return Html()
    most = max((figure.most(look) or 0.0 for look in looks if look is not None), default=0.0) / figure.per
    axis = linear_axis(max(most, *known), 4, lambda value: f"{value:g}")
    points = [
        ChartPoint(one.start, one.end, None if value is None else value / figure.per)
        for one, value in zip(stretches, values, strict=True)
    ]
    title = f"{name}{figure.title}"
    seen = dict.fromkeys((_plain(min(known)), _plain(max(known))))
    about = f"{' to '.join(seen)} {figure.unit}"
    about += f" of {_plain(most)}" if most and figure.limited else ""
    chart = over_time([ChartLine(title, "area", points)], times, axis, told=f"{title} over time: {about}")
    return _card(title, about, chart)


def _plain(value: float) -> str:
    """Return ``value`` as text with about three digits, without ``.0``."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}".removesuffix(".0")
