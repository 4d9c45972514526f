"""Tests the page with the commands for a row or a problem."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.model.actions.offers import Offer
from stalltop.model.chain import Fix
from stalltop.model.tenant import Tenant
from stalltop.tui.commands.page import entries
from stalltop.tui.commands.screen import CommandsScreen
from stalltop.tui.palette import ActionPalette
from stalltop.widgets.entries import EntryList
from tests.tui.faults import LATE, STARVED, faulty
from tests.tui.screen import Screen, running
from tests.tui.sources import numbered

OFFERS = (
    Offer("busy (pid 9)", "kill -STOP 9", "stops it", "kill -CONT 9"),
    Offer("busy (pid 9)", "renice -n 19 -p 9", "slows it", "renice -n 0 -p 9", "the usual default"),
    Offer("x, all its processes", "docker stop x", "ends it", "", "none: start it again"),
)


def text_of(offers: tuple[Offer, ...], **changed: object) -> list[str]:
    made = replace(numbered(0), **changed)  # type: ignore[arg-type]
    lines = [line for entry in entries(offers, made, now=made.end + 1) for line in entry.lines]
    return ["".join(part for part, _ in line.parts) for line in lines]


def test_the_page_says_what_each_command_does_and_its_undo() -> None:
    assert text_of(OFFERS) == [
        f"stalltop runs none of these. Type them as root on {numbered(0).host}.",
        "",
        "busy (pid 9)",
        "  kill -STOP 9",
        "    does  stops it",
        "    undo  kill -CONT 9",
        "  renice -n 19 -p 9",
        "    does  slows it",
        "    undo  renice -n 0 -p 9  (the usual default)",
        "",
        "x, all its processes",
        "  docker stop x",
        "    does  ends it",
        "    undo  none: start it again",
    ]
    assert text_of(())[-1].startswith("No command applies")


def test_the_page_warns_of_old_and_of_simulated_windows() -> None:
    assert "simulated" in text_of(OFFERS, simulated=True)[1]
    old = entries(OFFERS, numbered(0), now=numbered(0).end + 60)[0]
    assert "check first that the PIDs" in old.lines[1].parts[0][0]


async def opened(screen: Screen) -> EntryList:
    await screen.until(lambda: isinstance(screen.app.screen, CommandsScreen), "the page never opened")
    await screen.sees("stalltop runs none of these")
    return screen.app.screen.query_one("#page", EntryList)


async def test_commands_of_a_row_are_copied_by_y_and_enter() -> None:
    async with running(numbered(0), size=(120, 40)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("A")
        page = await opened(screen)
        assert "Commands  serve" in screen.line(1)
        await screen.press("end")
        await screen.until(lambda: page.cursor_key != 0)
        await screen.press("home", "enter")
        await screen.until(lambda: bool(screen.app.clipboard))
        first = screen.app.clipboard
        await screen.sees("sent to the terminal's clipboard, if it allows that")
        await screen.press("down", "y")
        await screen.until(lambda: screen.app.clipboard != first)
        assert "\n" not in screen.app.clipboard
        await screen.press("A")
        await screen.until(lambda: screen.app.screen is screen.app.main)


async def test_commands_of_a_problem_begin_with_its_fix() -> None:
    async with running(faulty(LATE, STARVED), size=(120, 40)) as screen:
        await screen.press("a", "down", "A")
        await opened(screen)
        await screen.sees("What helps with this problem")
        await screen.press("y")
        await screen.until(lambda: screen.app.clipboard == "ionice -c 3 -p 201")
        await screen.press("escape", "enter")
        await screen.sees("summary of loader_disk")
        await screen.press("A")
        await opened(screen)
        await screen.press("escape")
        await screen.sees("summary of loader_disk")


async def test_the_page_says_that_its_problem_ended() -> None:
    # Of the two, the second in the list is STARVED.
    async with running(faulty(LATE, STARVED), size=(120, 40)) as screen:
        await screen.press("a", "down", "A")
        await opened(screen)
        await screen.feed(faulty(LATE, STARVED, number=1))
        assert not any("ended" in screen.line(at) for at in range(6))
        await screen.feed(faulty(LATE, replace(STARVED, open=False, seen=1_001.0), number=2))
        await screen.sees("This problem ended at")
        await screen.feed(faulty(LATE, number=3))
        await screen.sees("This problem ended: check first")


async def test_commands_of_a_row_with_a_problem_are_those_of_the_problem() -> None:
    late = replace(LATE, fixes=(Fix("move it", "taskset -acp 1 201"),))
    async with running(faulty(late, STARVED), size=(120, 40)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("A")
        page = await opened(screen)
        assert f"Commands  serve: {LATE.title}" in screen.line(1)
        assert page.cursor_key == 0


async def test_commands_are_visible_after_the_palette_was_open() -> None:
    async with running(numbered(0), size=(120, 40)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("ctrl+p")
        await screen.until(lambda: isinstance(screen.app.screen, ActionPalette))
        await screen.press("escape")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        await screen.press("A")
        page = await opened(screen)
        assert page.visible


async def test_the_page_of_a_row_leads_to_its_commands() -> None:
    async with running(numbered(0), size=(120, 40)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("I")
        await screen.sees("Row  serve")
        await screen.press("A")
        await opened(screen)
        await screen.press("q")
        await screen.sees("Row  serve")


@pytest.mark.parametrize("size", [(40, 8), (80, 24), (200, 60)])
async def test_the_selected_command_is_always_in_view(size: tuple[int, int]) -> None:
    evil = Tenant("docker:ab", "\x1b[2J[bold]x", "container", "docker", "ab")
    made = numbered(0)
    made = replace(made, tenants={**made.tenants, **{key: replace(evil, id=key) for key in made.tenants}})
    async with running(made, size=size) as screen:
        await screen.until(lambda: len(screen.names()) == 2)
        await screen.press("A")
        await screen.until(lambda: isinstance(screen.app.screen, CommandsScreen))
        page = screen.app.screen.query_one("#page", EntryList)
        for _ in range(12):
            await screen.press("down")
            at = page.cursor_key
            assert isinstance(at, int)
            command = screen.app.screen._offers[at].command  # type: ignore[attr-defined]
            await screen.until(lambda: command.split()[0] in screen.text())  # noqa: B023
            assert "\x1b" not in screen.text()
            assert {len(line) for line in screen.text().splitlines()} == {size[0]}
