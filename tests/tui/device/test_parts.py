"""Tests what the page of a device says about its parts and the age of its figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stalltop.model.devices.device import Device, DeviceProcess, Devices, MigInstance
from stalltop.tui.device import page as device_page
from stalltop.tui.device import parts as device_parts
from stalltop.tui.device.screen import table
from stalltop.tui.pages.sections import Frame
from stalltop.widgets.devices import is_hot
from tests.tui.device.page_text import BARE, FRAME, said, text
from tests.tui.device_lines import lines
from tests.windows.by_hand import window

FULL = Device(
    0,
    "GPU-0",
    "H100",
    pci_bus_id="00000000:1B:00.0",
    minor=3,
    performance_state=2,
    compute_mode="exclusive process",
    persistence=False,
    mig=True,
    virtualization="vGPU host",
    sm_active_percent=61.4,
    sm_occupancy_percent=20.0,
    tensor_percent=40.0,
    dram_percent=77.0,
    encoder_percent=12.0,
    decoder_percent=0.0,
    jpeg_percent=97.0,
    memory_clock_mhz=2000,
    memory_clock_max_mhz=2619,
    video_clock_mhz=1000,
    memory_temperature_celsius=71.0,
    thermal_margin_celsius=16.0,
    fan_percent=61.0,
    bar1_used_bytes=4 << 30,
    bar1_total_bytes=128 << 30,
    energy_millijoules=640_250,
    pcie_rx_bytes_per_second=1_000_000,
    pcie_tx_bytes_per_second=2_500_000,
    nvlinks=18,
    nvlinks_active=17,
    nvlink_rx_bytes=5_000_000_000,
    nvlink_tx_bytes=0,
    nvlink_errors=3,
    ecc=True,
    ecc_corrected_lifetime=12,
    ecc_uncorrected_lifetime=0,
    retired_pages=4,
    retirement_pending=True,
    remapped_corrected=2,
    remapped_uncorrected=0,
    remap_failed=False,
)
LINES = (
    ("SMs", "61% had work, 20% of their warps resident", "text"),
    ("tensor cores", "40% of the time", "text"),
    ("DRAM busy", "77% of its bandwidth", "text"),
    ("encoder", "12% busy", "text"),
    ("decoder", "0% busy", "text"),
    ("JPEG decoder", "97% busy", "text"),
    ("memory clock", "2000MHz of 2619MHz", "text"),
    ("video clock", "1000MHz", "text"),
    ("memory heat", "71C", "text"),
    ("fan", "61% of its speed", "text"),
    ("BAR1", "4.00GiB of 128GiB mapped by the host", "text"),
    ("energy", "640J in this window", "text"),
    ("PCIe traffic", "1.00MB/s from the host, 2.50MB/s to it", "text"),
    ("NVLink", "17 of 18 links up", "warn"),
    ("traffic", "5.00GB received, 0B sent in this window", "text"),
    ("errors", "3 in this window", "warn"),
    ("ECC", "12 corrected and 0 uncorrected, over the lifetime of the GPU", "text"),
    ("pages retired", "4 pages, more wait for a reset of the device", "warn"),
    ("rows replaced", "2 after corrected errors, 0 after uncorrected ones", "text"),
    ("heat margin", "16C until it slows down", "text"),
)


def told(device: Device) -> list[tuple[str, str, str]]:
    lines = device_parts.parts(device, window(), FRAME).lines[1:]
    return [(line.parts[0][0].strip(), line.parts[1][0], line.parts[1][1]) for line in lines]


def test_every_known_part_has_a_line() -> None:
    assert told(FULL) == list(LINES)
    assert told(BARE) == []  # unknown parts have no line
    assert device_parts.parts(BARE, window(), FRAME).lines == ()


@pytest.mark.parametrize(
    ("change", "name", "expected", "role"),
    [
        ({"ecc": False}, "ECC", "off: errors of memory go unnoticed", "warn"),
        ({"ecc": True}, "ECC", "on", "text"),
        (
            {"ecc_uncorrected_lifetime": 1},
            "ECC",
            "– corrected and 1 uncorrected, over the lifetime of the GPU",
            "warn",
        ),
        (
            {"remap_failed": True},
            "rows replaced",
            "a row could not be replaced: have the board exchanged",
            "bad",
        ),
        (
            {"nvlinks": 4, "nvlinks_active": 0},
            "NVLink",
            "0 of 4 links up",
            "text",
        ),  # a board whose NVLinks are not connected
        ({"nvlinks": 4}, "NVLink", "4 links", "text"),
        ({"ages": (("energy_millijoules", 4.0),)}, "energy", "–  not read in this window", "dim"),
        ({"ages": (("nvlink_tx_bytes", 4.0),)}, "traffic", "–  not read in this window", "dim"),
        ({"energy_millijoules": 12_345_678}, "energy", "12.3kJ in this window", "text"),
        ({"pcie_tx_bytes_per_second": 1}, "PCIe traffic", "–/s from the host, 1B/s to it", "text"),
    ],
)
def test_the_line_of_a_part(change: dict[str, Any], name: str, expected: str, role: str) -> None:
    assert told(replace(BARE, **change)) == [(name, expected, role)]


def test_the_title_says_where_the_device_is_and_how_it_is_set_up() -> None:
    assert text(device_page.title(FULL))[1].strip() == (
        "00000000:1B:00.0, /dev/nvidia3, P2, compute mode exclusive process, persistence off,"
        " divided by MIG, vGPU host"
    )
    assert len(text(device_page.title(BARE))) == 1


def test_old_figures_show_their_age() -> None:
    device = replace(
        FULL, power_watts=70.0, ages=(("power_watts", 12.4), ("fan_percent", 8.0), ("nvlinks_active", 61.0))
    )
    assert said(device_page.now(device, window(), FRAME), "power").endswith("12s old")
    lines = text(device_parts.parts(device, window(), FRAME))
    aged = {line.split("  ")[1]: line.rpartition("  ")[2] for line in lines if line.endswith("old")}
    assert aged == {"fan": "8s old", "NVLink": "1m01s old"}


@pytest.mark.parametrize(
    ("change", "hot"),
    [
        ({"temperature_celsius": 84.0}, False),
        ({"temperature_celsius": 85.0}, True),
        ({"temperature_celsius": 85.0, "slowdown_celsius": 92.0}, False),
        ({"temperature_celsius": 89.0, "slowdown_celsius": 92.0}, True),
        ({"slowdown_celsius": 92.0}, False),
    ],
)
def test_a_device_is_hot_near_its_own_limit(change: dict[str, Any], hot: bool) -> None:
    device = replace(BARE, notes=(), **change)
    assert is_hot(device) is hot
    [row] = table(replace(window(), devices=Devices((device,))), (), FRAME).rows
    assert any(cell.role == "warn" and cell.text.endswith("C") for cell in row.cells) is hot
    old = replace(device, throttle_reasons=("power cap",), ages=(("power_watts", 125.0),), power_watts=5.0)
    [row] = table(replace(window(), devices=Devices((old,))), (), FRAME).rows
    told = [cell.text for cell in row.cells]
    assert "5W*" in told  # the reason for throttling is shown beside the old figure of power
    assert "power cap" in told


def test_limits_stand_beside_the_temperature() -> None:
    device = replace(BARE, temperature_celsius=40.0, slowdown_celsius=87.0, shutdown_celsius=92.0)
    line = said(device_page.now(device, window(), FRAME), "temperature")
    assert line == "40C  throttles at 87C, shuts down at 92C"


def test_other_reasons_for_throttling_share_a_line() -> None:
    device = replace(BARE, power_brake_held_ns=250_000_000, sync_boost_held_ns=0, hardware_thermal_held_ns=7)
    assert said(device_page.now(device, window(), FRAME), "others") == "thermal, chip 7ns, power brake 250ms"
    assert not [line for line in text(device_page.now(BARE, window(), FRAME)) if "others" in line]


def test_processes_show_their_samples_and_mig_instances() -> None:
    sampled = DeviceProcess(7, "C", 1 << 30, sm_percent=61.0, sample_age_seconds=2.4)
    other = DeviceProcess(8, "C")
    device = replace(BARE, notes=(), processes=(sampled, other))
    head, first, second = text(device_page.processes(device, window(), FRAME))[1:]
    assert head.split() == ["PID", "KIND", "MEMORY", "SAMPLE", "NAME", "AND", "TENANT"]
    assert first.split()[:6] == ["7", "C", "1.00GiB", "61%", "2s", "ago"]
    assert second.split()[:4] == ["8", "C", "–", "–"]
    divided = replace(device, instances=(MigInstance(0, 3, "MIG-3", processes=(replace(other),)),))
    head, first, second = text(device_page.processes(divided, window(), FRAME))[1:]
    assert "MIG" in head.split()
    assert first.split()[6] == "–"
    assert second.split()[4] == "0:3"


@pytest.mark.parametrize("width", [80, 120, 200])
async def test_the_line_of_a_device_shows_the_age_of_its_figures(width: int) -> None:
    old = (("utilization_percent", 12.0), ("fan_percent", 90.0))
    device = replace(BARE, utilization_percent=50.0, ages=old, throttle_reasons=("power cap",))
    divided = replace(BARE, mig=True, instances=tuple(MigInstance(0, n, f"MIG-{n}") for n in range(7)))
    shown = Devices((device, replace(device, ages=old[1:]), divided))
    first, second, third = await lines(shown, 3, width)
    assert "12s old" in first
    assert ("throttled: power" in first) is (width >= 120)  # the age leaves no room at 80
    assert "old" not in second
    assert "7 MIG devices" in third
    (free,) = await lines(Devices((replace(device, throttle_reasons=()),)), 1, width)
    assert "12s old" in free


def test_parts_can_be_drawn_at_narrow_widths() -> None:
    for width in (40, 60):
        assert device_parts.parts(FULL, window(), Frame(width=width, height=15)).lines
