"""Tests how two and three tables share the screen, and that they return to their places after a table was
enlarged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scripts.screenshots import window as pictured
from stalltop.model.window import OpenCall, Window
from stalltop.tui.tables.sizes import BESIDE_FROM, first_cells
from tests.tui.screen import Screen, running
from tests.tui.sources import numbered
from tests.windows.by_hand import Calls, key, window


def heads(screen: Screen) -> list[str]:
    """Return the first column head of each table, from top to bottom."""
    found = (line.strip(" │").split()[0] for line in screen.text().splitlines() if "TOTAL" in line)
    return [head.lstrip("▸·") for head in found]


@pytest.mark.parametrize("rows", [1, 3])
async def test_a_second_table_that_was_enlarged_goes_back_to_its_place(rows: int) -> None:
    async with running(numbered(0), size=(120, 42)) as screen:
        tables = screen.app.main.tables
        await screen.until(lambda: heads(screen)[:2] == ["CONTAINER", "OPERATION"])
        await screen.press("down", "tab", *["down"] * rows, "r")
        chosen = tables.second.chosen_key
        await screen.press("e")
        await screen.until(lambda: heads(screen) == ["OPERATION"])
        assert tables.main.cursor_key == chosen, "the enlarged table keeps the chosen row"
        await screen.press("e")
        await screen.until(
            lambda: heads(screen)[:2] == ["CONTAINER", "OPERATION"] and tables.second.has_focus
        )
        assert tables.second.cursor_key == chosen
        assert tables.main.cursor_key == tables.main.data.key(1)
        assert "▼TOTAL" in next(line for line in screen.text().splitlines() if "CONTAINER" in line)
        assert "operations   worst last" in screen.text()


async def test_a_pivot_of_an_enlarged_table_stays_afterwards() -> None:
    async with running(numbered(0), size=(120, 42)) as screen:
        await screen.press("tab", "e")
        await screen.until(lambda: heads(screen) == ["OPERATION"])
        await screen.press("l", "e")
        await screen.until(lambda: heads(screen)[:2] == ["LAYER", "OPERATION"])


async def test_a_short_second_table_leaves_its_room_to_the_first() -> None:
    calls = [Calls(key(f"operation{at:02}"), [1_000]) for at in range(60)]
    async with running(window(calls), size=(120, 42)) as screen:
        main, second = screen.app.main.tables.main, screen.app.main.tables.second
        await screen.until(lambda: heads(screen)[:2] == ["CONTAINER", "OPERATION"])
        await screen.until(lambda: main.size.height == 3 < second.size.height)
        await screen.press("enter")
        await screen.until(lambda: heads(screen)[:2] == ["OPERATION", "PROCESS"])
        await screen.until(lambda: second.size.height == 4 < main.size.height)
        await screen.press("escape")
        await screen.until(lambda: main.size.height == 3 < second.size.height)


async def test_tables_side_by_side_have_a_legend_of_splits_and_the_layer_of_operations() -> None:
    async with running(pictured(), size=(200, 32)) as screen:
        for wanted in ("containers", "operations"):
            if wanted == "operations":
                await screen.press("o")
            await screen.until(lambda wanted=wanted: screen.app.main.tables.main.data.title[0][0] == wanted)  # type: ignore[misc]
            await screen.sees("R━ run  q▄ queue")
            head = next(line for line in screen.text().splitlines() if "TOTAL" in line)
            assert head.count("SPLIT") == 2
            assert "LAYER" in head
    async with running(pictured(), size=(80, 24)) as screen:
        await screen.sees("R━ run")
        legend = next(line for line in screen.text().splitlines() if "R━ run" in line)
        assert "d disk" not in legend  # a narrow table explains only the parts that it shows


def test_the_second_of_two_tables_takes_what_the_first_can_spare() -> None:
    assert first_cells(BESIDE_FROM, 50) == first_cells(BESIDE_FROM, 50, gives=False) == BESIDE_FROM // 2
    assert [first_cells(width, 50) for width in (200, 240, 400)] == [92, 110, 190]
    assert first_cells(200, 50, gives=False) == 108


def with_second_process(one: Window) -> Window:
    """Return ``one`` with a second process in one of its containers."""
    call = OpenCall("docker:aa", 150, 150, "python3", "runtime", "cudaFree", 5_000)
    return replace(one, open_calls=(*one.open_calls, call))


async def test_processes_have_no_table_while_each_container_has_one() -> None:
    calls = [Calls(key(), [1_000]), Calls(key(tenant="cri:bb", pid=200), [1_000])]
    async with running(window(calls), size=(200, 60)) as screen:
        await screen.until(lambda: heads(screen) == ["CONTAINER", "OPERATION"])
        await screen.press("p")
        await screen.until(lambda: heads(screen) == ["PROCESS", "OPERATION"])
        await screen.press("c")
        await screen.feed(with_second_process(window(calls)))
        await screen.until(lambda: heads(screen) == ["CONTAINER", "OPERATION", "PROCESS"])


async def test_tab_cycles_through_three_tables_and_each_keeps_its_state() -> None:
    async with running(with_second_process(numbered(0)), size=(200, 60)) as screen:
        tables = screen.app.main.tables
        await screen.until(lambda: screen.names("third")[:1] == ["tritonserver 200"], "no third table")
        await screen.until(lambda: tables.third.region.y > tables.main.region.y, "no room")
        await screen.press("tab", "tab", "r", "down")
        await screen.until(lambda: tables.third.has_focus and "worst last" in screen.text())
        await screen.until(lambda: screen.names("third")[-1] == "tritonserver 200")
        chosen = tables.third.chosen_key
        # Enter opens a row of the third table; Esc goes back to the table.
        await screen.press("enter")
        await screen.until(lambda: "processes › " in screen.text())
        await screen.press("escape")
        await screen.until(lambda: tables.third.has_focus and tables.third.chosen_key == chosen)
        # Enlarge the third table and restore its size.
        await screen.press("e")
        await screen.until(lambda: heads(screen) == ["PROCESS"])
        await screen.press("e")
        await screen.until(lambda: tables.third.has_focus and tables.third.display)
        await screen.press("tab")
        await screen.until(lambda: tables.main.has_focus)
        # There is no third table if the second is hidden or if the screen has few lines.
        await screen.press("5")
        await screen.until(lambda: not tables.third.display)
        await screen.press("5")
        await screen.until(lambda: tables.third.display)
        await screen.pilot.resize_terminal(200, 14)
        await screen.until(lambda: not tables.third.display)


async def test_a_third_table_stands_below_the_second_where_that_is_shorter() -> None:
    calls = [Calls(key(f"operation{at:02}"), [1_000]) for at in range(60)]
    async with running(with_second_process(window(calls)), size=(200, 60)) as screen:
        tables = screen.app.main.tables
        await screen.press("o")
        await screen.until(lambda: tables.third.display and tables.third.region.x > 80)
        await screen.until(lambda: tables.main.size.height > tables.second.size.height)
        await screen.press("tab", "tab")
        await screen.until(lambda: tables.third.has_focus)
        await screen.press("p")
        await screen.until(lambda: tables.main.has_focus)
