"""Tests the pages of rows and devices by pressing keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.model.devices.device import Devices
from stalltop.model.tenant import Tenant
from stalltop.model.text import figures
from stalltop.tui.device.screen import DeviceScreen, DevicesScreen
from stalltop.tui.row.facts import facts
from stalltop.tui.row.screen import TWO_COLUMNS_FROM, RowScreen
from stalltop.tui.screens.run_options import RunOptions
from stalltop.widgets.page import Page
from tests.tui.faults import GAP, LATE, REDUCE, STARVED, STORM, faulty
from tests.tui.screen import Screen, running
from tests.tui.sources import numbered, with_devices
from tests.windows.by_hand import Calls, key, window

SIZES = [(40, 8), (60, 15), (80, 24), (120, 40), (200, 60)]


def page(screen: Screen) -> Page:
    """Return the open page."""
    return screen.app.screen.query_one("#page", Page)


def lines(screen: Screen) -> list[str]:
    """Return all lines of the open page, including those out of view."""
    return ["".join(text for text, _ in line.parts).rstrip() for line in page(screen)._text]


def place(screen: Screen, text: str) -> int:
    """Return the index of the first line of the page that begins with ``text``."""
    return next(at for at, line in enumerate(lines(screen)) if line.strip().startswith(text))


async def test_a_key_opens_the_page_of_the_row_and_escape_leads_back_to_it() -> None:
    async with running(numbered(0), numbered(1), size=(80, 24)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("down", "I")
        await screen.sees("Row  train")
        await screen.sees("container train")
        await screen.sees("How long calls took")
        for heading in (
            "Where the time went",
            "Over time",
            "Who had the CPU instead",
            "Who ended its waits",
            "Open calls",
            "Processes",
            "Devices it uses",
            "Owner",
        ):
            assert any(line.startswith(heading) for line in lines(screen)), heading
        assert any("/docker/aa (id 71)" in line for line in lines(screen))
        await screen.press("escape")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        assert screen.app.main.tables.main.cursor_key == ("docker:aa",)


async def test_enter_on_the_deepest_level_opens_the_page_of_the_row() -> None:
    async with running(numbered(0), size=(120, 40)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("enter")
        await screen.sees("containers › serve › operations")
        await screen.press("enter")
        await screen.sees("› processes")
        await screen.press("enter")
        await screen.sees("Row  tritonserver 200")
        assert isinstance(screen.app.screen, RowScreen)
        await screen.press("I")
        await screen.until(lambda: screen.app.screen is screen.app.main)


async def test_the_page_scrolls_and_keeps_its_position_on_new_data() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("I")
        await screen.sees(" 1-22 of")
        await screen.press("pagedown")
        await screen.sees(" 22-")
        before = place(screen, "Who ended its waits")
        for number in (1, 2):
            await screen.feed(replace(numbered(number), chains=()))
        await screen.until(lambda: any("the last 3s" in line for line in lines(screen)))
        assert place(screen, "No problem involves") < place(screen, "How long calls took")
        assert " 22-" in screen.line(1)
        assert place(screen, "Who ended its waits") >= before
        await screen.press("end", "k", "home", "down")
        await screen.sees(" 2-23 of")


async def test_a_section_that_becomes_shorter_keeps_its_height() -> None:
    async with running(faulty(STARVED, STORM, LATE), size=(120, 40)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("down", "I")
        await screen.sees("title of loader_disk")
        before = place(screen, "How long calls took")
        await screen.feed(faulty(number=1))
        await screen.sees("No problem involves this row")
        assert place(screen, "How long calls took") == before


async def test_a_frozen_page_does_not_change_until_it_is_live_again() -> None:
    async with running(faulty(), size=(120, 40)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("I", "space")
        await screen.sees("FROZEN")
        assert any(line.startswith("  calls        1 in") for line in lines(screen))
        await screen.feed(faulty(number=1))
        await screen.pilot.pause(0.6)
        assert any(line.startswith("  calls        1 in") for line in lines(screen))
        await screen.press("space")
        await screen.until(lambda: any(line.startswith("  calls        2 in") for line in lines(screen)))


async def test_time_keys_work_on_the_page() -> None:
    async with running(*(faulty(number=number) for number in range(3)), size=(120, 40)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("I")
        await screen.until(lambda: any(line.startswith("  calls        3 in") for line in lines(screen)))
        await screen.press("minus")
        await screen.sees("window: last 1s")
        await screen.until(lambda: any(line.startswith("  calls        1 in") for line in lines(screen)))
        await screen.press("left_square_bracket")
        await screen.sees("FROZEN")
        await screen.until(lambda: any("the last 2s" in line for line in lines(screen)))
        await screen.press("right_square_bracket", "right_square_bracket")
        await screen.sees("live")
        await screen.press("right_square_bracket")
        await screen.sees("this is the newest moment")
        await screen.until(lambda: any("the last 3s" in line for line in lines(screen)))


async def test_the_page_is_copied_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    async with running(numbered(0), size=(80, 24)) as screen:
        monkeypatch.setattr(screen.app, "copy_to_clipboard", copied.append)
        await screen.named(["serve", "train"])
        await screen.press("I", "y")
        await screen.sees("sent to the terminal's clipboard, if it")
        await screen.press("D", "y")
        await screen.until(lambda: len(copied) == 2)
    row, device = copied
    assert row.startswith("container serve\n  calls ")
    assert "\nOwner\n" in row
    assert not any(line.endswith(" ") for line in row.splitlines())
    assert device.startswith("GPU 0 NVIDIA H100")


async def test_keys_lead_from_the_page_to_a_chain_and_to_its_row() -> None:
    async with running(faulty(STARVED, STORM, LATE), size=(120, 42)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("down", "I")
        await screen.sees("H  title of loader_disk")
        await screen.press("enter")
        await screen.sees("summary of loader_disk")
        await screen.sees("1 of 2")
        await screen.press("escape")
        await screen.sees("Row  train")
        await screen.press("i", "right", "i")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        await screen.sees("containers › train › operations")


async def test_a_row_without_a_chain_says_so() -> None:
    async with running(faulty(), size=(80, 24)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("I", "enter")
        await screen.sees("No problem involves this row")
        assert isinstance(screen.app.screen, RowScreen)


async def test_the_page_of_a_row_that_is_gone_can_be_closed() -> None:
    async with running(faulty(), size=(120, 40)) as screen:
        await screen.press("o", "I")
        await screen.sees("Row  ")
        await screen.feed(replace(faulty(number=40), rows=window().rows))
        await screen.feed(replace(faulty(number=80), rows=window().rows))
        await screen.press("escape", "minus")
        await screen.feed(replace(faulty(number=81), rows=window().rows))
        assert screen.app.screen is screen.app.main


async def test_without_rows_there_is_no_page() -> None:
    async with running(window(), size=(80, 24)) as screen:
        await screen.press("I")
        await screen.sees("there is no row here")
        assert screen.app.screen is screen.app.main


async def test_control_characters_in_names_are_replaced() -> None:
    evil = "\x1b[2J[bold]x[/]"
    one = window([Calls(key(tenant="evil", process="a\x07b"), [1_000])])
    one = replace(one, tenants={"evil": Tenant("evil", evil, cgroup_path="/\x1b]0;x\x07")})
    async with running(one, size=(120, 40)) as screen:
        await screen.press("I")
        await screen.sees("Row  ?[2J[bold]x[/]")
        await screen.press("pagedown")
        await screen.sees("a?b")
        assert "\x1b" not in screen.text()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ascii_only", [False, True])
async def test_pages_fit_every_size_in_unicode_and_ascii(size: tuple[int, int], ascii_only: bool) -> None:
    options = RunOptions(interval=0.0, ascii=ascii_only, theme="dark")
    async with running(numbered(0), numbered(1), size=size, options=options) as screen:
        await screen.named(["serve", "train"])
        for keys in (("I",), ("D",)):
            await screen.press(*keys)
            await screen.until(lambda: screen.app.screen is not screen.app.main)
            for scroll in ("home", "pagedown", "pagedown", "end"):
                await screen.press(scroll)
                assert {len(line) for line in screen.text().splitlines()} == {size[0]}
                assert not ascii_only or screen.text().isascii()
            await screen.press("escape")
            await screen.until(lambda: screen.app.screen is screen.app.main)


async def test_without_colours_a_bar_is_letters_and_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(numbered(0), size=(80, 40)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("I")
        await screen.sees("R─────────")


# ---- devices


async def test_one_device_has_a_page() -> None:
    async with running(with_devices(0, 1), with_devices(1, 1), size=(80, 24)) as screen:
        await screen.press("D")
        await screen.sees("NVIDIA H100 80GB HBM3")
        text = "\n".join(lines(screen))
        for figure in (
            "busy         20%",
            "memory       66.1GiB of 79.6GiB (83%)",
            "power        512W of 700W (73%)",
            "SM clock     1755MHz of 1980MHz (89%)",
            "throttling   sw power cap",
            "generation 4 of 5, 16 of 16 lanes",
            "XIDs         13",
            "ECC fixed    2 within this window",
            "memory busy  –  not reported by the driver",
            "python3  train",
        ):
            assert figure in text, figure
        assert "the last 1s" in text
        await screen.press("D")
        await screen.until(lambda: screen.app.screen is screen.app.main)


async def test_several_devices_have_a_list_and_pages_side_by_side() -> None:
    async with running(with_devices(0, 3), with_devices(1, 3), size=(120, 40)) as screen:
        await screen.press("D")
        await screen.until(lambda: isinstance(screen.app.screen, DevicesScreen))
        await screen.sees("H100 80GB HBM3")
        await screen.sees("sw power cap")
        await screen.press("down", "enter")
        await screen.sees("2 of 3")
        await screen.press("right", "right")
        await screen.sees("3 of 3")
        await screen.press("left", "left", "left")
        await screen.sees("1 of 3")
        await screen.press("escape")
        await screen.until(lambda: isinstance(screen.app.screen, DevicesScreen))
        await screen.feed(with_devices(2, 3))
        await screen.sees(" 30%")
        await screen.press("escape")
        await screen.until(lambda: screen.app.screen is screen.app.main)


async def test_when_a_device_goes_away_its_page_shows_another_device() -> None:
    async with running(with_devices(0, 2), size=(80, 24)) as screen:
        await screen.press("D", "down", "enter")
        await screen.sees("2 of 2")
        await screen.feed(with_devices(1, 1))
        await screen.until(lambda: "GPU 0" in screen.line(1) and "of 2" not in screen.line(1))
        assert isinstance(screen.app.screen, DeviceScreen)


async def test_without_a_device_the_page_says_why() -> None:
    none = replace(faulty(), devices=Devices(unavailable="no NVIDIA driver on this host"))
    async with running(none, size=(80, 24)) as screen:
        await screen.press("D")
        await screen.sees("no GPU can be read: no NVIDIA driver on this host")


async def test_the_host_gap_has_a_page() -> None:
    async with running(faulty(), size=(120, 42)) as screen:
        await screen.press("o")
        await screen.until(lambda: "time between calls" in screen.names())
        screen.app.main.tables.main.put_cursor((GAP.operation, GAP.layer))
        await screen.press("I")
        await screen.sees("this is the time between calls")
        await screen.press("escape")
        screen.app.main.tables.main.put_cursor((REDUCE.operation, REDUCE.layer))
        await screen.press("I")
        await screen.sees("operation ncclAllReduce › layer nccl")


async def test_pages_follow_the_size_of_the_terminal() -> None:
    async with running(numbered(0), numbered(1), size=(80, 24)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("I")
        await screen.sees("Row  serve")
        for width, height in ((200, 60), (41, 9), (160, 50), (80, 24)):
            await screen.pilot.resize_terminal(width, height)
            await fits(screen, width)


async def fits(screen: Screen, width: int) -> None:
    """Wait until the page is ``width`` cells wide, in two columns if there is room for two."""

    def beside() -> bool:
        return any("Where the time went" in line and "Processes" in line for line in lines(screen))

    await screen.until(lambda: beside() == (width >= TWO_COLUMNS_FROM))
    await screen.until(lambda: {len(line) for line in screen.text().splitlines()} == {width})


async def test_a_saved_window_has_pages_too() -> None:
    options = RunOptions(interval=0.0, theme="dark", still=True)
    async with running(numbered(0), size=(80, 24), options=options) as screen:
        await screen.named(["serve", "train"])
        await screen.press("I")
        await screen.sees("Row  serve")
        assert any("only this window is known" in line for line in lines(screen))
        await screen.press("left_square_bracket")
        await screen.sees("a saved window is one moment")


@pytest.mark.parametrize("pivot", ["c", "o", "p", "l", "n"])
async def test_the_page_shows_the_row_under_the_cursor_also_in_trees(pivot: str) -> None:
    async with running(numbered(0), size=(200, 60)) as screen:
        await screen.named(["serve", "train"])
        await screen.press(pivot, "asterisk")
        main, tables = screen.app.main.tables.main, screen.app.main.tables
        at = [column.id for column in main.data.columns].index("total")
        assert len(main.data.rows) > 2
        for row in main.data.rows:
            main.put_cursor(row.key)
            found = facts(numbered(0), tables.path_here())
            total_ns = int(found.groups.total_ns[0])  # 0 if all calls of the row are still open
            assert row.cells[at].text.strip() == (figures.duration(total_ns).strip() if total_ns else "–")
