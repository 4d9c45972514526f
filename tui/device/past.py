"""Draws the figures of a GPU over time: areas on its page, charts below the list of GPUs. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from stalltop.model.devices.device import DEVICE_GAUGES, Device, DeviceFigure
from stalltop.model.merge.packing import Packed
from stalltop.model.text.figures import whole_seconds, with_unit
from stalltop.tui.pages.sections import LABEL, Frame, Section, heading, note
from stalltop.widgets.charts import Chart, Charts, area, edges
from stalltop.widgets.page import PageLine

STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600)
"""The possible lengths of the time that one column covers, in seconds."""
CHARTED_SECONDS: Final = 300.0
"""Seconds that the charts below the list of devices cover."""
_FIGURES: Final = 27
"""Cells right of an area, for three figures: the current, the least and the largest value."""
_MOST_LINES: Final = 4
"""The most lines of one area on the page."""
_OTHER_LINES: Final = 36
"""Approximate number of lines of the page's other sections. The areas may use the lines that are left."""
WIDE: Final = 160
"""Least width in cells at which all charts of a device are side by side."""
_CHARTED: Final = ("utilization_percent", "memory_used_bytes", "power_watts", "sm_clock_mhz")
"""The gauges of the charts below the list."""


@dataclass(frozen=True, slots=True)
class FigureCourse:
    """The figures of a device over time, in columns of ``step`` seconds."""

    step: int
    """Seconds that a column covers."""
    span: float
    """Seconds from the first to the last sample."""
    last: int
    """The number of the newest column, counted from the epoch, so that a value stays in its column as time
    passes."""
    seen: Sequence[tuple[int, Device]]
    """The samples, each with the number of its column."""
    room: int
    """The number of columns."""

    def means(self, gauge: DeviceFigure) -> list[float | None]:
        """Return the mean of a gauge in each column, the newest last; None for a column without a known
        value."""
        sums = [[0.0, 0] for _ in range(self.room)]
        for column, device in self.seen:
            value = gauge.value(device)
            back = self.last - column
            if value is not None and back < self.room:
                sums[self.room - 1 - back][0] += value
                sums[self.room - 1 - back][1] += 1
        return [total / number if number else None for total, number in sums]

    def known(self, gauge: DeviceFigure) -> list[float]:
        """Return the values of a gauge in the samples that have one."""
        values = (gauge.value(device) for column, device in self.seen if self.last - column < self.room)
        return [value for value in values if value is not None]

    def held(self) -> list[bool]:
        """Return for each column whether clocks were throttled in it."""
        found = [False] * self.room
        for column, device in self.seen:
            if device.throttle_reasons and self.last - column < self.room:
                found[self.room - 1 - (self.last - column)] = True
        return found


def course(
    device: Device, parts: Sequence[Packed], room: int, seconds: float = float("inf")
) -> FigureCourse | None:
    """Return the figures of ``device`` over the last ``seconds`` of the windows ``parts`` (oldest first), in
    ``room`` columns. Returns None if fewer than two samples are known."""
    since = parts[-1].window.end - seconds if parts else 0.0
    seen = [
        (part.window.end, one)
        for part in parts
        if part.window.end >= since
        for one in part.window.devices.devices
        if (one.uuid, one.index) == (device.uuid, device.index)
    ]
    if len(seen) < 2:
        return None
    end, span = seen[-1][0], seen[-1][0] - seen[0][0]
    step = next((step for step in STEPS if span / step <= room - 1), STEPS[-1])
    return FigureCourse(step, span, int(end // step), [(int(at // step), one) for at, one in seen], room)


def past(device: Device, parts: Sequence[Packed], frame: Frame) -> Section:
    """Return the section with one area for each gauge over all kept windows. The areas are several lines high
    if there is room."""
    found = course(device, parts, max(frame.width - LABEL - 3 - _FIGURES, 8))
    if found is None:
        return Section("past", (heading("Over time"), note("only this moment is known, nothing before it")))
    about = f"the last {whole_seconds(found.span)}, {whole_seconds(found.step)} a column; "
    about += "at the right: the latest, the least, the most"
    lines = [heading("Over time", about)]
    high = min(max((frame.height - _OTHER_LINES) // len(DEVICE_GAUGES), 1), _MOST_LINES)
    for gauge in DEVICE_GAUGES:
        plain = found.known(gauge)
        if not plain:
            continue
        top = gauge.end(device) or max(plain)
        drawn = area(found.means(gauge), high, top, frame.glyphs)
        figures = " ".join(
            with_unit(value, gauge.unit, frame.glyphs).rjust(8)
            for value in (gauge.value(device), min(plain), max(plain))
        )
        for number, text in enumerate(drawn):
            first, bottom = number == 0, number == high - 1
            name = gauge.label if first else ""
            lines.append(
                PageLine(
                    (
                        (f"  {name.ljust(LABEL)} ", "label"),
                        *(
                            ("".join(letter for letter, _ in run), "accent" if edge else "track")
                            for edge, run in groupby(
                                zip(text, edges(drawn, number), strict=True), key=lambda pair: pair[1]
                            )
                        ),
                        (" " + figures if bottom else "", "text"),
                    )
                )
            )
    return Section("past", tuple(lines))


def charts(devices: Sequence[Device], parts: Sequence[Packed], frame: Frame) -> list[list[Chart]]:
    """Return the charts of ``devices``: a row of charts for each, or two rows on a narrow terminal."""
    number = _beside(frame)
    cells = Charts.cells(frame.width, number)
    rows: list[list[Chart]] = []
    for device in devices:
        found = course(device, parts, cells, CHARTED_SECONDS)
        if found is None:
            continue
        drawn = [_chart(gauge, device, found, frame) for gauge in DEVICE_GAUGES if gauge.name in _CHARTED]
        rows += [drawn[first : first + number] for first in range(0, len(drawn), number)]
    return rows


def _beside(frame: Frame) -> int:
    """Return the number of charts side by side."""
    return len(_CHARTED) if frame.width >= WIDE else len(_CHARTED) // 2


def _chart(gauge: DeviceFigure, device: Device, found: FigureCourse, frame: Frame) -> Chart:
    means = found.means(gauge)
    top = gauge.end(device) or max(found.known(gauge), default=1.0)
    return Chart(
        title=f"GPU {device.index} {gauge.label}",
        now=with_unit(gauge.value(device), gauge.unit, frame.glyphs),
        values=means,
        high=top,
        top=with_unit(top, gauge.unit, frame.glyphs),
        marked=found.held() if gauge.name == "sm_clock_mhz" else (),
    )


def span_text(devices: Sequence[Device], parts: Sequence[Packed], frame: Frame) -> str:
    """Return the text about how much time the charts and their columns cover; empty if there are no
    charts."""
    cells = Charts.cells(frame.width, _beside(frame))
    for device in devices[:1]:
        found = course(device, parts, cells, CHARTED_SECONDS)
        if found is not None:
            return f"the last {whole_seconds(found.span)}, {whole_seconds(found.step)} a column"
    return ""
