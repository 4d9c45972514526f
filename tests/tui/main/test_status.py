"""Tests the state in the header line of the screen."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from stalltop.model.hosts.tracer import Tracer
from stalltop.model.text.glyphs import UNICODE
from stalltop.model.window import OVER_QUOTA, Coverage, Missing
from stalltop.tui.chain.warnings_page import warnings_page
from stalltop.tui.main.status import header_state, window_text
from tests.tui.screen import running
from tests.windows.by_hand import window
from tests.windows.full import full_window


@pytest.mark.parametrize(
    ("simulated", "demo", "frozen", "silent", "state", "level"),
    [
        (False, False, False, 0.0, "LIVE", "good"),
        (False, True, False, 0.0, "LIVE DEMO", "good"),
        (True, False, False, 0.0, "SIMULATED", "label"),
        (True, True, False, 0.0, "SIMULATED", "label"),
        (False, False, True, 0.0, "FROZEN", "warn"),
        (False, True, True, 0.0, "FROZEN DEMO", "warn"),
        (True, False, True, 0.0, "FROZEN SIMULATED", "warn"),
        (False, False, False, 5.0, "NO DATA 5s", "bad"),
        (False, True, False, 5.0, "DEMO NO DATA 5s", "bad"),
        (True, True, False, 5.0, "SIMULATED NO DATA 5s", "bad"),
        (False, False, True, 5.0, "FROZEN NO DATA 5s", "bad"),
        (False, True, True, 5.0, "FROZEN DEMO NO DATA 5s", "bad"),
        (True, True, True, 5.0, "FROZEN SIMULATED NO DATA 5s", "bad"),
    ],
)
def test_simulated_windows_and_demos_are_always_marked(
    simulated: bool, demo: bool, frozen: bool, silent: float, state: str, level: str
) -> None:
    one = replace(window(), simulated=simulated)
    said = header_state(
        one, 10.0, frozen_at=one.end if frozen else None, silent=silent, still=False, demo=demo
    )
    words = said.state.split()
    if frozen:
        words.pop(1)  # leaves out the time of day
    assert (" ".join(words), said.level) == (state, level)


@pytest.mark.parametrize(("simulated", "end"), [(False, ""), (True, " SIMULATED")])
def test_a_file_of_simulated_tenants_is_marked(simulated: bool, end: str) -> None:
    said = header_state(
        replace(window(), simulated=simulated), None, frozen_at=None, silent=9.0, still=True
    ).state
    assert said.startswith("SAVED ")
    assert said.endswith(end)
    assert "NO DATA" not in said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(9.0, "last 10s"), (11.0, "last 10s"), (10.3, "last 10s"), (4.2, "last 4s of 10s"), (13.0, "last 13s")],
)
def test_small_delays_of_windows_do_not_change_the_text(seconds: float, said: str) -> None:
    one = replace(window(), seconds=seconds)
    assert window_text(one, 10.0) == said


def test_an_unknown_name_does_not_count_as_an_untraced_process() -> None:
    gaps = Missing("/lib", "broken"), Missing("a program", "no symbols", pid=7), Missing("names", "no answer")
    one = replace(window(), coverage=Coverage(processes=3, missing=gaps))
    said = header_state(one, 10.0, frozen_at=None, silent=0.0, still=False, demo=False)
    assert said.traced == "traced 3/5"


def test_the_header_says_whose_tracer_it_is() -> None:
    tracer = Tracer(4711, "root", 1_700_000_000.0, "stalltop record")
    one = replace(window(), coverage=Coverage(processes=3, tracer=tracer))
    assert header_state(one, 10.0, frozen_at=None, silent=0.0, still=False).tracer == "root 4711"
    assert header_state(window(), 10.0, frozen_at=None, silent=0.0, still=False).tracer == ""
    # A file says who traced it on the page of the coverage: the present tracer is another one.
    assert header_state(one, 10.0, frozen_at=None, silent=0.0, still=False, file=True).tracer == ""
    page = "\n".join("".join(text for text, _ in line.parts) for line in warnings_page(one, (), UNICODE))
    assert re.search(r"tracer +PID 4711 of root, since 2023-11-1\d .*: stalltop record", page)


async def test_the_tracer_is_on_the_first_line_of_the_screen() -> None:
    tracer = Tracer(4711, "root", 1_700_000_000.0, "stalltop record")
    one = replace(full_window(), coverage=replace(full_window().coverage, tracer=tracer))
    async with running(one, size=(120, 40)) as screen:
        await screen.sees("tracer root 4711")
        assert "tracer root 4711" in screen.header()


@pytest.mark.parametrize(("size", "shown"), [((80, 24), False), ((120, 40), True), ((200, 60), True)])
async def test_the_header_names_who_is_over_quota(size: tuple[int, int], shown: bool) -> None:
    gap = Missing("the container of hog 7 of a-tenant", f"{OVER_QUOTA}it has 8 of 9 records", pid=7)
    other = Missing("some names", f"{OVER_QUOTA}it has 8 of 9 names")
    coverage = replace(full_window().coverage, missing=(other, gap))
    one = replace(full_window(), loss={"no_slot": 142_480}, coverage=coverage)
    async with running(one, size=size) as screen:
        await screen.sees("142k")
        assert ("over quota container of hog 7 of a…" in screen.header()) is shown
    async with running(replace(one, loss={}), size=size) as screen:
        assert "over quota" not in screen.header()
