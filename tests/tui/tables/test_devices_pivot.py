"""Tests rows by device: calls are grouped by the GPUs that their process uses."""

from __future__ import annotations

from dataclasses import replace

from stalltop.model.chain import Chain, Link
from stalltop.model.devices.device import Device, DeviceProcess, Devices
from stalltop.model.window import Window
from stalltop.tui.device.screen import DeviceScreen, DevicesScreen
from stalltop.tui.problems.rows import row_losses
from stalltop.tui.views.view import View
from tests.tui.screen import running
from tests.windows.by_hand import Calls, key, window


def two_devices() -> Window:
    """Return a window in which the trainer uses both GPUs, the server the second GPU, and a third tenant an
    unknown GPU."""
    train, serve = DeviceProcess(100, "C", tenant="docker:aa"), DeviceProcess(200, "C", tenant="cri:bb")
    devices = (
        Device(0, "GPU-0", "H100", processes=(train,)),
        Device(1, "GPU-1", "H100", processes=(train, serve)),
    )
    calls = [
        Calls(key(), [3_000_000]),
        Calls(key("cudaMalloc", tenant="cri:bb", pid=200), [2_000_000]),
        Calls(key("cudaFree", tenant="cgroup:9", pid=300), [1_000_000]),
    ]
    return replace(window(calls), devices=Devices(devices))


async def test_the_key_d_groups_rows_by_device_and_enter_opens_one() -> None:
    async with running(two_devices()) as screen:
        await screen.named(["train", "serve", "cgroup:9"])
        await screen.press("d")
        await screen.named(["GPU 0-1", "GPU 1", "GPU not known"])
        await screen.press("down", "enter")
        await screen.sees("devices › GPU 1 › containers")
        await screen.named(["serve"])
        await screen.press("o")
        await screen.named(["cudaMalloc"])
        await screen.press("escape")
        await screen.named(["GPU 0-1", "GPU 1", "GPU not known"])


async def test_the_key_d_shows_the_devices_of_an_entered_row() -> None:
    async with running(two_devices()) as screen:
        await screen.named(["train", "serve", "cgroup:9"])
        await screen.press("down", "enter", "d")
        await screen.sees("containers › serve › devices")
        await screen.named(["GPU 1"])


async def test_a_filter_matches_devices() -> None:
    async with running(two_devices()) as screen:
        await screen.named(["train", "serve", "cgroup:9"])
        await screen.press("slash", *("g", "p", "u", "colon", "1"), "enter")
        await screen.named(["train", "serve"])


async def test_an_unknown_key_in_a_filter_is_reported() -> None:
    async with running(two_devices()) as screen:
        await screen.named(["train", "serve", "cgroup:9"])
        await screen.press("slash", *("p", "o", "d", "s", "colon", "x"), "enter")
        await screen.sees("did you mean pod:")


async def test_a_column_shows_the_devices_of_a_row() -> None:
    async with running(two_devices(), size=(200, 50)) as screen:
        await screen.named(["train", "serve", "cgroup:9"])
        tables = screen.app.main.tables
        tables.views.choose_columns("container", ("calls", "device"))
        tables.redraw()
        cells = [row.cells[-1].text for row in tables.main.data.rows]
        assert cells == ["0-1", "1", "–"]


async def test_device_pages_open_at_the_device_of_the_row() -> None:
    async with running(two_devices()) as screen:
        await screen.named(["train", "serve", "cgroup:9"])
        await screen.press("down", "D")
        await screen.until(
            lambda: isinstance(screen.app.screen, DevicesScreen), "the list of devices did not open"
        )
        devices = screen.app.screen
        assert isinstance(devices, DevicesScreen)
        await screen.until(
            lambda: devices.table.cursor_key == ("GPU-1", 1), "the cursor is on another device"
        )
        await screen.press("escape", "d", "down", "D")
        await screen.until(
            lambda: isinstance(screen.app.screen, DeviceScreen), "the page of the device did not open"
        )
        await screen.sees("GPU 1 H100")


def test_chains_of_devices_and_of_processes_mark_the_row_of_the_device() -> None:
    one = two_devices()
    hot = Chain(
        id="hot",
        cause="clocks",
        title="GPU thermally throttled",
        severity="medium",
        summary="",
        tenant="",
        pid=0,
        process="",
        layer="",
        operation="",
        lost_ms_per_s=1.0,
        confidence=1.0,
        links=(Link(role="reason", text="heat", device="GPU 0"),),
        fixes=(),
    )
    served = replace(hot, id="served", tenant="cri:bb", pid=200, process="python3", severity="high", links=())
    unknown = replace(served, id="unknown", tenant="cgroup:9", pid=300)
    found = row_losses((served, hot, unknown), one, View(by="device")).marks
    assert {key: cell.text for key, cell in found.items()} == {("gpu7/0",): "M", ("gpu7/1",): "H"}
