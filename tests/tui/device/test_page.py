"""Tests the text of the page of a device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.model.devices.device import DeviceProcess
from stalltop.model.merge.packing import Packed, pack
from stalltop.model.text.figures import whole_seconds
from stalltop.tui.device import page as device_page
from stalltop.tui.device import past as device_past
from stalltop.tui.device.screen import table
from stalltop.tui.pages.sections import Frame, Places, Section, note, plain
from stalltop.widgets.page import PageLine
from tests.tui.device.page_text import BARE, FRAME, said, text
from tests.windows.by_hand import window
from tests.windows.full import full_window


def test_unknown_figures_are_dashes_with_the_reason() -> None:
    now = device_page.now(BARE, window(), FRAME)
    assert said(now, "busy") == "–  not supported"
    assert said(now, "memory busy") == "–  not supported"
    assert said(now, "power") == "–  not supported"
    not_given = said(now, "not given").removeprefix("by the driver: ").split(", ")
    assert not_given[:4] == ["memory", "temperature", "SM clock", "throttled by power"]
    assert {"PCIe", "replays", "ECC fixed", "ECC lost", "remapped", "throttled by heat"} <= set(not_given)
    assert said(now, "throttling") == "none"
    assert said(now, "XIDs") == "none"
    processes = device_page.processes(BARE, window(), FRAME)
    assert text(processes)[1].strip() == "not known: no permission"
    assert text(device_page.unread(BARE))[1].strip() == "utilization, power: not supported"


@pytest.mark.parametrize(
    ("change", "name", "expected", "role"),
    [
        ({"temperature_celsius": 91.0}, "temperature", "91C", "warn"),
        ({"throttle_reasons": ("power cap", "reliability")}, "throttling", "power cap, reliability", "warn"),
        ({"power_held_ns": 250_000_000}, "by power", "250ms of this window", "warn"),
        ({"power_held_ns": 9 * 10**9}, "by power", "9.00s of this window and those before", "warn"),
        (
            {"ages": (("power_held_ns", 4.0),)},
            *("by power", "–  not read for 4s: the driver is slow to answer", "dim"),
        ),
        (
            {"ages": (("pcie_replays", 7.0),)},
            *("replays", "–  not read for 7s: the driver is slow to answer", "dim"),
        ),
        ({"pcie_width": 8, "pcie_width_max": 16}, "PCIe", "generation –, 8 of 16 lanes", "warn"),
        ({"pcie_generation": 1, "pcie_generation_max": 5}, "PCIe", "generation 1 of 5, – lanes", "text"),
        ({"ecc_uncorrected": 2}, "ECC lost", "2 within this window", "bad"),
        ({"ecc_corrected": 0}, "ECC fixed", "0 within this window", "text"),
        ({"xids": (79, 48)}, "XIDs", "79, 48: critical errors the driver reported", "bad"),
        ({"remap_pending": False}, "remapped", "no row of memory waits to be replaced", "text"),
    ],
)
def test_figures_that_show_a_problem_stand_out(
    change: dict[str, object], name: str, expected: str, role: str
) -> None:
    device = replace(BARE, **change)  # type: ignore[arg-type]
    now = device_page.now(device, window(), FRAME)
    assert said(now, name) == expected
    line = next(line for line in now.lines if line.parts[0][0].strip() == name)
    assert line.parts[1][1] == role


def test_a_lost_device_says_so_first() -> None:
    lost = replace(BARE, lost=True, notes=("GPU is lost",))
    assert "it no longer answers: GPU is lost" in text(device_page.title(lost))[1]


def packed(values: list[float | None], step: float = 1.0) -> list[Packed]:
    return [
        pack(
            replace(
                window(start=1_000.0 + number * step, seconds=step),
                devices=replace(
                    full_window().devices, devices=(replace(BARE, utilization_percent=value, notes=()),)
                ),
            )
        )
        for number, value in enumerate(values)
    ]


def test_the_past_has_gaps_where_values_are_unknown() -> None:
    parts = packed([0.0, 50.0, None, 100.0])
    device = parts[-1].window.devices.devices[0]
    head, busy = text(device_past.past(device, parts, FRAME))
    assert head.startswith("Over time  the last 3s, 1s a column")
    assert "▁▄ █" in busy
    assert busy.split()[-3:] == ["100%", "0%", "100%"]
    assert len(busy) <= FRAME.width


def test_a_column_of_a_long_past_covers_several_windows_and_does_not_move() -> None:
    values: list[float | None] = [float(number % 100) for number in range(600)]
    parts = packed(values)
    device = parts[-1].window.devices.devices[0]
    head, busy = text(device_past.past(device, parts, FRAME))
    assert "the last 9m59s, 30s a column" in head
    drawn = busy[15:51]
    assert len(drawn.strip()) == 21
    _, later = text(device_past.past(device, parts[:-1], FRAME))
    assert later[15:50] == drawn[:-1]  # one window more changes only the newest column


def test_one_sample_makes_no_past() -> None:
    parts = packed([50.0])
    assert "only this moment" in text(device_past.past(parts[0].window.devices.devices[0], parts, FRAME))[1]


def test_processes_are_listed_with_their_tenants_by_memory() -> None:
    device = replace(
        BARE,
        notes=(),
        processes=(
            DeviceProcess(7, "C", None, ""),
            DeviceProcess(100, "C", 5 << 30, "docker:aa"),
            DeviceProcess(200, "M+C", 9 << 30, "cri:bb"),
        ),
    )
    lines = text(device_page.processes(device, full_window(), FRAME))
    assert lines[2].split() == ["200", "M+C", "9.00GiB", "tritonserver", "serve"]
    assert lines[3].split() == ["100", "C", "5.00GiB", "python3", "train"]
    assert lines[4].split() == ["7", "C", "–", "not", "traced", "tenant", "not", "known"]


def test_the_list_has_all_devices() -> None:
    data = table(full_window(), packed([1.0]), Frame(width=200, height=60))
    (row,) = data.rows
    assert [cell.text.strip() for cell in row.cells][:2] == ["0 H100 80GB HBM3", "97%"]
    assert len(row.cells) == len(data.columns)
    narrow = table(full_window(), (), FRAME)
    assert len(narrow.rows[0].cells) == len(narrow.columns) == len(data.columns) - 1


# ---- sections


def test_two_columns_of_sections_stand_side_by_side() -> None:
    left = Section("one", (PageLine((("a word or two", "text"),), indent=1), note("b")))
    right = Section("two", (note("c"),))
    lines = Places().beside([left], [right], 8)
    assert plain(lines) == "a word       c\nor two\n  b\n"
    evil = Section("one", (note("\x1b[2J"),))
    assert plain(Places().beside([evil], [], 20)) == "  ?[2J\n"


def test_sections_keep_their_height() -> None:
    places = Places()
    long, short = Section("one", (note("a"), note("b"))), Section("one", (note("a"),))
    rest = Section("two", (note("c"),))
    assert plain(places.lines([short, rest])) == "  a\n\n  c\n"
    assert plain(places.lines([long, Section("three", ()), rest])) == "  a\n  b\n\n  c\n"
    assert plain(places.lines([short, rest])) == "  a\n\n\n  c\n"


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "0s"), (59.4, "59s"), (61, "1m01s"), (5_999, "99m59s"), (7_200, "2h00m")]
)
def test_durations_are_shown_in_whole_seconds(seconds: float, expected: str) -> None:
    assert whole_seconds(seconds) == expected
