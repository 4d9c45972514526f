"""Tests the low-bandwidth mode: when it is offered and what it leaves out."""

from __future__ import annotations

import time

import pytest

from bench.monitor.shown import PreparedSource
from stalltop.tui.app import StalltopApp
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.terminal.slow_line import LOW_SECONDS, WITHIN_SECONDS, SlowLine, offer
from tests.manual_clock import ManualClock
from tests.tui.screen import running


def operation_rows(text: str) -> list[str]:
    """Return the table's rows of operations. The first lines, which name one too, are never held back."""
    return [line for line in text.splitlines() if line.startswith("│") and "cudaOperation" in line]


def test_low_bandwidth_is_offered_once_when_pictures_are_skipped_often() -> None:
    clock = ManualClock()
    line = SlowLine(clock=clock)
    assert [line.left_out() for _ in range(6)] == [False, False, True, False, False, False]
    line = SlowLine(clock=clock)
    seldom = []
    for _ in range(9):
        clock.now += WITHIN_SECONDS
        seldom.append(line.left_out())
    assert not any(seldom)
    assert not any(SlowLine(low=True, clock=clock).left_out() for _ in range(6))


def test_low_bandwidth_draws_new_data_seldom() -> None:
    clock = ManualClock()
    line = SlowLine(clock=clock)
    line.drawn()
    assert line.due
    line.low = True
    assert not line.due
    clock.now += LOW_SECONDS
    assert line.due


BARS = "━╸"


def options(**more: object) -> RunOptions:
    return RunOptions(interval=0.0, theme="dark", window=1.0, **more)  # type: ignore[arg-type]


async def test_the_key_switches_low_bandwidth_on_and_off() -> None:
    source = PreparedSource(20, 1.0)
    async with running(source.read(), options=options()) as screen:
        await screen.sees("SPLIT")
        assert any(sign in screen.text() for sign in BARS)
        await screen.press("b")
        await screen.until(lambda: "SPLIT" not in screen.text(), "the split stays")
        assert not any(sign in screen.text() for sign in BARS)
        assert screen.app.theme == "terminal"
        # The low-bandwidth mode draws in another theme, but the screen remembers the theme that the user
        # chose.
        assert screen.app.colours.choice == "dark"
        assert "cudaOperation0000" in screen.text()
        await screen.press("b")
        await screen.sees("SPLIT")
        assert any(sign in screen.text() for sign in BARS)
        assert screen.app.theme == "dark"


async def test_new_data_waits_for_its_turn_and_keys_do_not() -> None:
    source = PreparedSource(20, 1.0)
    async with running(source.read(), options=options(low_bandwidth=True)) as screen:
        clock = ManualClock()
        clock.now = time.monotonic()
        screen.app.slow_line._clock = clock
        await screen.press("o")
        clock.now += LOW_SECONDS
        await screen.feed(source.read())
        rows = operation_rows(screen.text())
        assert rows
        await screen.feed(source.read())
        await screen.pilot.pause(0.1)
        assert operation_rows(screen.text()) == rows
        await screen.press("c")
        await screen.sees("CONTAINER")
        clock.now += LOW_SECONDS
        await screen.press("o")
        await screen.feed(source.read())
        await screen.until(lambda: operation_rows(screen.text()) != rows, "no new picture")


async def test_low_bandwidth_is_offered_when_the_connection_falls_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = PreparedSource(5, 1.0)
    async with running(source.read(), options=options()) as screen:
        await screen.sees("tenant-0")
        monkeypatch.setattr(StalltopApp, "line_is_behind", property(lambda app: True))
        for _ in range(4):
            await screen.feed(source.read())
        await screen.sees(offer())


async def test_a_theme_chosen_in_low_bandwidth_stays() -> None:
    async with running(PreparedSource(5, 1.0).read(), options=options()) as screen:
        await screen.press("b", "t")
        chosen = screen.app.theme
        await screen.press("b")
        assert screen.app.theme == chosen
