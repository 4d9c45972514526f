"""Tests the screen of a fleet: what it shows, and where its keys lead."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from textual.binding import Binding
from textual.pilot import Pilot

from stalltop.model.errors import StalltopError
from stalltop.model.fleet.fleet_digest import FleetDigest, digest_of
from stalltop.model.fleet.fleet_state import FleetState
from stalltop.model.fleet.host_summary import DeviceSummary, HostAddress, TenantSummary
from stalltop.tui.fleet.fleet_app import FleetApp, FleetScreen, FleetSource
from stalltop.tui.fleet.fleet_keys import key_line
from stalltop.tui.keys.actions import BY_ID, choose
from stalltop.tui.keys.page_keys import PAGES
from stalltop.tui.settings.settings import Settings
from stalltop.widgets.table import Table
from tests.unit.model.fleet.running_job import RunningJob
from tests.unit.model.fleet.summaries import NOW, at, problem, rank, summary


@dataclass
class Shown:
    """A running screen, and the state that it shows."""

    app: FleetApp
    pilot: Pilot[None]
    state: FleetState
    now: list[float]

    def text(self) -> str:
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    def names(self) -> list[str]:
        return [row.cells[0].text for row in self.app.screen.query_one("#main", Table).data.rows]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def drawn(self) -> None:
        self.app.refresh_view()
        await self.pilot.pause()


@asynccontextmanager
async def shown(
    state: FleetState, width: int = 120, height: int = 24, save: Callable[[], str] | None = None
) -> AsyncIterator[Shown]:
    now = [NOW]

    def digest() -> FleetDigest:
        return digest_of(state.view(now[0]))

    def tenant_hosts(namespace: str, name: str) -> tuple[HostAddress, ...]:
        return state.view(now[0]).with_tenant(namespace, name)

    app = FleetApp(FleetSource(digest, tenant_hosts, save), Settings())
    async with app.run_test(size=(width, height)) as pilot:
        await pilot.pause()
        yield Shown(app, pilot, state, now)


def fleet() -> FleetState:
    state = FleetState()
    for number in range(3):
        tenants = (TenantSummary("ml", "train", "pod", 100, 10**9, 5_000, 10.0),)
        state.take(at(f"slow-{number}"), summary(problem(lost=100 - number), tenants=tenants), NOW)
    state.take(at("fine"), summary(tenants=(TenantSummary("web", "shop", "pod", 5, 10, 5, 0.0),)), NOW)
    state.take(at("gone"), summary(), NOW - 60)
    return state


async def test_the_worst_problem_is_the_first_line() -> None:
    async with shown(fleet()) as screen:
        first = screen.text().splitlines()[0]
        assert "storage-backup slows 3 hosts (Slow disk): 297 ms/s" in first
        assert "ionice" in screen.text().splitlines()[1]
        assert screen.names()[:1] == ["prod/r1/slow-0"]
        assert screen.names()[-2:] == ["prod/r1/gone", "prod/r1/fine"]
        assert "silent for 60 s" in screen.text()
        assert "5 hosts" in screen.text()
        assert "1 silent  LIVE" in screen.text()


async def test_a_healthy_fleet_is_said_to_be_healthy() -> None:
    state = FleetState()
    async with shown(state) as screen:
        assert "Waiting for hosts" in screen.text()
        state.take(at("a"), summary(), NOW)
        await screen.drawn()
        assert "No problems on 1 host " in screen.text()


async def test_a_job_that_stands_comes_before_all_else() -> None:
    state = fleet()
    state.take(at("a"), summary(ranks=(rank(0, 500),)), NOW)
    disk = problem(culprit="nightly-backup", summary="train waits for its disk: nightly-backup reads")
    state.take(at("b"), summary(disk, ranks=(rank(1, 499),)), NOW)
    async with shown(state) as screen:
        first = screen.text().splitlines()[0]
        assert "train stands for 10 s: it waits for rank 1 on b: train waits for its disk" in first
        await screen.press("4")
        assert screen.names() == ["train"]


async def test_enter_opens_a_host() -> None:
    async with shown(fleet()) as screen:
        await screen.press("down", "enter")
        assert screen.app.chosen == at("slow-1")


async def test_enter_on_a_problem_shows_its_hosts_and_esc_goes_back() -> None:
    async with shown(fleet()) as screen:
        await screen.press("2")
        assert screen.names() == ["storage-backup"]
        await screen.press("enter")
        assert screen.names() == ["prod/r1/slow-0", "prod/r1/slow-1", "prod/r1/slow-2"]
        assert "of storage-backup" in screen.text()
        await screen.press("escape", "escape")
        assert len(screen.names()) == 5


async def test_enter_on_a_tenant_shows_its_hosts() -> None:
    async with shown(fleet()) as screen:
        await screen.press("3")
        assert screen.names() == ["ml/train", "web/shop"]
        await screen.press("down", "enter")
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        assert screen.names() == ["prod/r1/fine"]


async def test_the_filter_finds_hosts() -> None:
    async with shown(fleet()) as screen:
        await screen.press("slash", *"R1", "slash", *"SLOW-2", "enter")
        assert screen.names() == ["prod/r1/slow-2"]
        await screen.press("escape")
        assert len(screen.names()) == 5


async def test_a_frozen_screen_does_not_change() -> None:
    state = fleet()
    async with shown(state) as screen:
        await screen.press("space")
        state.take(at("new"), summary(problem(lost=9_000)), NOW)
        await screen.drawn()
        assert len(screen.names()) == 5
        assert "FROZEN" in screen.text()
        await screen.press("space")
        assert len(screen.names()) == 6


async def test_a_name_is_shown_as_it_is() -> None:
    state = FleetState()
    state.take(at("[red]x[/red]"), summary(problem(summary="[bold]a[/bold]")), NOW)
    async with shown(state) as screen:
        assert "[red]x[/red]" in screen.text()
        assert "[bold]a[/bold]" in screen.text()


async def test_ten_thousand_hosts_are_drawn() -> None:
    state = FleetState()
    one = summary(problem())
    for number in range(10_000):
        state.take(at(f"n{number:05}"), one, NOW)
    async with shown(state) as screen:
        assert "slows 10,000 hosts" in screen.text()
        await screen.press(*["down"] * 5)
        assert screen.app.screen.query_one("#main", Table).cursor_key == at("n00005")
        await screen.press("end")
        assert "n09999" in screen.text()


async def test_a_failure_ends_the_screen_with_its_reason() -> None:
    def fails() -> FleetDigest:
        raise ValueError("broken")

    app = FleetApp(FleetSource(fails, lambda *_: ()), Settings())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
    assert str(app.failure) == "broken"


async def test_a_key_copies_the_fix() -> None:
    async with shown(fleet()) as screen:
        await screen.press("y")
        assert screen.app.clipboard == "ionice -c 3 -p 4711"
        assert "ionice -c 3 -p 4711" in screen.text().splitlines()[-1]


async def test_the_help_lists_the_keys_of_the_table() -> None:
    async with shown(fleet(), height=60) as screen:
        await screen.press("question_mark")
        text = screen.text()
        for page in PAGES:
            if "FleetScreen" in page.screens:
                assert all(f"  {keys.ljust(14)} {help_}" in text for keys, help_ in page.lines())
        assert f"  {BY_ID['freeze'].key.ljust(14)} {BY_ID['freeze'].help}" in text
        await screen.press("escape")
        assert "storage-backup" in screen.text()


def test_every_key_of_the_line_is_bound() -> None:
    bound = {binding.action for binding in FleetScreen.BINDINGS if isinstance(binding, Binding)}
    for key, label, action in key_line():
        assert key
        assert label
        assert not action or action in bound
        assert not action or hasattr(FleetApp, f"action_{action.removeprefix('app.').partition('(')[0]}")


async def test_a_key_that_the_user_chose_works() -> None:
    state = fleet()
    settings = Settings(keys=(("freeze", ("f5",)),))
    app = FleetApp(FleetSource(lambda: digest_of(state.view(NOW)), lambda *_: ()), settings)
    try:
        async with app.run_test(size=(120, 24)) as pilot:
            await pilot.press("f5")
            await pilot.pause()
            text = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
            assert "FROZEN" in text
            assert " f5 " in text
    finally:
        choose(())


async def test_a_key_saves_the_past_and_another_shows_it() -> None:
    async with shown(fleet(), save=lambda: "written: fleet.stalltop: 5 calls") as screen:
        await screen.press("w")
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        assert "written: fleet.stalltop: 5 calls" in screen.text().splitlines()[-1]
        await screen.press("left_square_bracket")
        assert screen.app.past


async def test_an_error_while_saving_is_said() -> None:
    def fails() -> str:
        raise StalltopError("the fleet has no merged windows of that time", "run stalltop rollup")

    async with shown(fleet(), save=fails) as screen:
        await screen.press("w")
        await screen.app.workers.wait_for_complete()
        await screen.pilot.pause()
        assert "no merged windows of that time; run stalltop rollup" in screen.text()


async def test_a_narrow_screen_shows_what_is_wrong_with_each_host() -> None:
    async with shown(fleet(), width=80) as screen:
        heading = screen.text().splitlines()[3]
        assert "problem" in heading
        assert "tenants" not in heading
        assert "train waits for" in screen.text().splitlines()[4]


async def test_enter_on_a_job_shows_its_ranks_and_enter_on_a_rank_opens_its_host() -> None:
    state, job = FleetState(), RunningJob(late={2: 0.04}, ranks=4)
    for second in range(1, 7):
        for one in range(4):
            now = second + job.looks[one]
            more = problem(summary="train waits for its disk") if one == 2 else problem(severity="low")
            said = job.summary(one, now, problems=(more,), problems_in_all=1)
            state.take(at(f"node-{one}"), said, NOW + now + 0.01)
    for width in (80, 120):
        async with shown(state, width=width) as screen:
            screen.now[0] = NOW + 7
            await screen.drawn()
            await screen.press("4", "enter")
            lines = screen.text().splitlines()
            assert "train waits for rank 2 on node-2, late by 40" in lines[0]
            assert "train waits for its disk" in lines[0] + lines[1]
            assert "4 ranks of train  wait" in lines[2]
            assert "per collective together" in lines[2]
            assert screen.names()[0] == "2 on node-2"
            assert screen.names() == [f"{one} on node-{one}" for one in (2, 0, 1, 3)]
            assert ("PID" in lines[3]) is (width == 120)
            await screen.press("slash", *"node-3", "enter")
            assert screen.names() == ["3 on node-3"]
            await screen.press("enter")
            assert screen.app.chosen == at("node-3")


async def test_a_job_that_has_ended_is_said_to_have_ended() -> None:
    state = FleetState()
    state.take(at("a"), summary(ranks=(rank(0, 500, 0.1),)), NOW)
    async with shown(state) as screen:
        await screen.press("4", "enter")
        assert "cannot be compared" in screen.text()
        assert screen.names() == ["0 on a"]
        state.take(at("a"), summary(end=NOW + 1), NOW + 1)
        await screen.drawn()
        first = screen.text().splitlines()[0]
        assert "This job has ended" in first
        assert "not listed" not in first
        screen.app._shown = replace(screen.app._shown, jobs_left_out=3)
        screen.app.draw()
        await screen.pilot.pause()
        assert "or it is one of 3 jobs that are not listed" in screen.text().splitlines()[0]
        await screen.drawn()
        await screen.press("escape")
        assert "No host has ranks" in screen.text()


async def test_the_page_of_a_job_has_hints_from_likeness() -> None:
    state = FleetState()
    alike = DeviceSummary("3", "H100", 98.0, 70.0, 62.0, 640.0, 1980.0)
    for second in range(4):
        for number in range(6):
            gpu = alike._replace(sm_clock_mhz=1200.0) if number == 4 else alike
            known = rank(number, 500, 0.1)._replace(device="3")
            state.take(at(f"node-{number}"), summary(ranks=(known,), devices=(gpu,)), NOW + second)
    for width in (80, 120):
        async with shown(state, width=width) as screen:
            screen.now[0] = NOW + 3
            await screen.drawn()
            await screen.press("4")
            assert "MHz" not in screen.text()
            await screen.press("enter")
            lines = screen.text().splitlines()
            hint = "by likeness only: GPU 3 of node-4 (rank 4) runs at 1200 MHz, the others at 1980 MHz"
            assert hint[: width - 8] in lines[1]
            (row,) = [line for line in lines[2:] if "MHz" in line]
            assert "4 on node-4" in row
            assert "likeness: GPU 3 runs at 1200 MHz" in row
