"""Tests the lines of devices on the main screen, and the line that sums up the devices for which there is no
room."""

from __future__ import annotations

from stalltop.model.devices.device import Devices
from tests.tui.device_lines import device, lines


async def test_each_device_has_a_line_and_unknown_figures_are_dashes() -> None:
    first, second = await lines(Devices((device(0, None), device(1))), 4)
    assert "GPU0" in first
    assert "Test 80GB" in first
    assert "–%" in first
    assert "50%" in second
    assert "1.00GiB/80.0GiB" in second
    assert "throttled: power" in second
    assert all(len(line) <= 60 for line in await lines(Devices((device(1),)), 1, width=60))


async def test_more_devices_than_lines_are_summed_up() -> None:
    eight = Devices(tuple(device(index) for index in range(8)))
    shown = await lines(eight, 3)
    assert len(shown) == 3
    assert shown[-1].strip() == "GPU 6 more, 50% busy on average"
    assert [line.strip() for line in await lines(eight, 1)] == ["GPU 8 devices, 50% busy on average"]


async def test_without_devices_one_line_gives_the_reason() -> None:
    (line,) = await lines(Devices(unavailable="no NVIDIA driver on this host"), 4)
    assert "no NVIDIA driver on this host" in line


async def test_past_utilization_stands_at_the_end_of_the_line() -> None:
    past = [Devices((device(0, 0.0), device(1, None))), Devices(()), Devices((device(0, 100.0), device(1)))]
    first, second = await lines(Devices((device(0), device(1))), 4, width=200, past=past)
    assert first.endswith("  ▁ █")
    assert second.endswith("  ▅")
    assert "throttled: power" in second
    assert len(first) == len(second) == 199
    assert not (await lines(Devices((device(0),)), 4, width=200, past=past[:1]))[0].endswith("▁")
    narrow = await lines(Devices((device(0),)), 4, width=120, past=past)
    assert "█" not in narrow[0]
