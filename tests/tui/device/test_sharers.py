"""Tests the section of a device's page about the tenants that share it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from stalltop.formats.text import sharing_text
from stalltop.model.sharing.sharing import sharing_of
from stalltop.model.window import Window
from stalltop.tui.device.screen import DeviceScreen
from stalltop.tui.device.sharers import sharers
from stalltop.tui.pages.sections import Frame, Section
from tests.tui.screen import running
from tests.tui.sources import numbered
from tests.windows.drawn import FEW, windows
from tests.windows.evidence import TRAIN, row
from tests.windows.shared_devices import at, client, divided, gpu, on, shared

FRAME = Frame(width=98, height=40)


def text(section: Section) -> list[str]:
    return ["".join(part for part, _ in line.parts) for line in section.lines]


def test_the_summary_comes_first_and_problems_stand_out() -> None:
    made, device = shared()
    section = sharers(device, made, FRAME)
    lines = text(section)
    assert lines[0].split() == ["Who", "shares", "it", "MPS"]
    assert lines[1].strip() == sharing_text.statement(sharing_of(made, device), made)
    assert [line.split()[0] for line in lines if "GiB" in line] == ["batch-job", "server", "trainer"]
    roles = {part.strip(): role for line in section.lines for part, role in line.parts}
    assert roles["no scheduler gave it this device"] == "warn"
    assert roles["not used: none of its processes is on the device"] == "warn"
    assert roles["used"] == "dim"


def test_mig_instances_share_one_table() -> None:
    device = divided(True)
    made = on(device, rows=[at("0:3", row("cudaLaunchKernel", 9, running=1, tenant="docker:3", pid=103))])
    lines = text(sharers(device, made, FRAME))
    assert [line.split()[:2] for line in lines if "GiB" in line] == [
        [f"0:{n}", f"docker:{n}"] for n in range(7)
    ]
    assert ["9.00", "9.00"] in [line.split()[2:4] for line in lines if "docker:3" in line]
    assert [line.split() for line in lines if "1g" in line] == [[f"0:{n}", "1g.10gb"] for n in range(7)]


def test_a_long_list_of_tenants_is_cut_and_the_rest_counted() -> None:
    device = gpu(*(client(100 + n, f"docker:{n:02}") for n in range(30)))
    lines = text(sharers(device, on(device), FRAME))
    assert "30 tenants share GPU 0" in lines[1]
    assert lines[-1].strip() == "and 18 more"


@FEW
@given(windows())
def test_any_window_can_be_drawn(made: Window) -> None:
    for device in made.devices.devices:
        for width in (20, 78):
            assert sharers(device, made, replace(FRAME, width=width)).lines


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_the_section_is_on_the_page_of_the_device(size: tuple[int, int]) -> None:
    device = gpu(client(100, TRAIN), client(200, "docker:x"))
    made = replace(numbered(0), devices=on(device).devices)
    async with running(made, size=size) as screen:
        await screen.press("D")
        assert isinstance(screen.app.screen, DeviceScreen)
        await screen.sees("Who shares it")
        await screen.sees("tenants share GPU 0, 2 of them through MPS")
