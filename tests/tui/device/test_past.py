"""Tests the charts of the past figures of devices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.model.devices.device import DEVICE_GAUGES, Device, Devices
from stalltop.model.merge.packing import Packed, pack
from stalltop.tui.device.past import charts, course
from stalltop.tui.pages.sections import Frame
from tests.tui.screen import running
from tests.tui.sources import numbered
from tests.windows.by_hand import window

HOT = Device(
    *(1, "GPU-1", "H100"),
    utilization_percent=50.0,
    sm_clock_mhz=990,
    sm_clock_max_mhz=1980,
    throttle_reasons=("thermal, software",),
)


def packed(devices: int, windows: int = 4) -> list[Packed]:
    """Return ``windows`` windows with ``devices`` devices, which are all throttled in the last window
    only."""
    found = []
    for number in range(windows):
        reasons = HOT.throttle_reasons if number == windows - 1 else ()
        held = (replace(HOT, index=at, uuid=f"GPU-{at}", throttle_reasons=reasons) for at in range(devices))
        found.append(pack(replace(window(start=1_000.0 + number), devices=Devices(tuple(held)))))
    return found


def test_each_device_has_a_row_of_charts_where_the_width_allows() -> None:
    parts = packed(3)
    devices = parts[-1].window.devices.devices
    assert [len(row) for row in charts(devices, parts, Frame(200, 60))] == [4, 4, 4]
    assert [len(row) for row in charts(devices, parts, Frame(100, 60))] == [2] * 6
    clock = charts(devices, parts, Frame(200, 60))[0][3]
    assert (clock.title, clock.now, clock.top) == ("GPU 0 SM clock", "990MHz", "1980MHz")
    assert list(clock.marked[-3:]) == [False, False, True]
    assert charts(devices, parts[:1], Frame(200, 60)) == []  # a single window is too little for a chart


def test_a_course_covers_at_most_the_seconds_asked_for() -> None:
    parts = packed(1, windows=20)
    device = parts[-1].window.devices.devices[0]
    found = course(device, parts, 40, seconds=5.0)
    assert found is not None
    assert found.span == pytest.approx(5.0)
    assert len([value for value in found.means(DEVICE_GAUGES[0]) if value is not None]) == 6


async def test_the_list_of_devices_has_charts_and_draws_none_on_a_slow_line() -> None:
    def at(number: int) -> Devices:
        return Devices((replace(HOT, index=0, uuid="GPU-0", throttle_reasons=()), HOT))

    windows = [replace(numbered(number), devices=at(number)) for number in range(3)]
    async with running(*windows, size=(120, 40)) as screen:
        await screen.press("D")
        await screen.sees("GPU 1 SM clock 990MHz")
        await screen.sees("charts: the last 2s, 1s a column")
        await screen.press("escape", "b", "D")
        await screen.until(
            lambda: "GPU 1 SM clock" not in screen.text() and "THROTTLED BY" in screen.text(), "drawn"
        )
