"""Draws the lines of devices that the main screen shows."""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual.app import App, ComposeResult

from stalltop.model.devices.device import Device, Devices
from stalltop.widgets.devices import DeviceRows


class OnlyDevices(App[None]):
    def compose(self) -> ComposeResult:
        yield DeviceRows("devices")


def device(index: int, busy: float | None = 50.0) -> Device:
    return Device(
        index=index,
        uuid=f"GPU-{index}",
        name="NVIDIA Test 80GB",
        utilization_percent=busy,
        memory_used_bytes=1 << 30,
        memory_total_bytes=80 << 30,
        throttle_reasons=("power cap",) if index == 1 else (),
    )


async def lines(devices: Devices, most: int, width: int = 120, past: Sequence[Devices] = ()) -> list[str]:
    app = OnlyDevices()
    async with app.run_test(size=(width, 24)) as pilot:
        rows = app.query_one(DeviceRows)
        rows.styles.height = min(max(len(devices.devices), 1), most)
        rows.show(devices, past)
        end = time.monotonic() + 60
        while (
            rows.size.height != min(max(len(devices.devices), 1), most)
            or len(rows._shown) != rows.size.height  # the widget has not handled its new size yet
            or not rows.render_line(0).text.strip()
        ):
            assert time.monotonic() < end
            await pilot.pause(0.02)
        return [rows.render_line(y).text.rstrip() for y in range(rows.size.height)]
