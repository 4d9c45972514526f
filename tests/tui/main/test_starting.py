"""Tests the progress of the start, which the screen shows until the first window."""

from __future__ import annotations

import threading

import pytest

from stalltop.cli.later import Ahead
from stalltop.model.progress import Progress, ProgressStep
from stalltop.model.text.glyphs import ASCII
from stalltop.tui.main.status import starting_text
from stalltop.tui.screens.run_options import RunOptions
from tests.tui.screen import running
from tests.tui.sources import numbered


async def test_the_screen_says_what_it_waits_for() -> None:
    progress = Progress()
    async with running(size=(80, 24), options=RunOptions(interval=0.0, progress=progress)) as screen:
        await screen.sees("starting")
        progress.begin("compiling for the kernel", 1000.0)
        await screen.sees("compiling for the kernel: 0s, usually 1000s  ▱▱▱▱▱▱▱▱▱▱▱▱")
        screen.app.began -= 100.0
        progress.begin("looking for CUDA processes")
        await screen.sees("starting: looking for CUDA processes")
        assert "NO DATA" not in screen.text()
        await screen.feed(numbered(1))
        await screen.until(lambda: "starting" not in screen.text())
        assert "LIVE" in screen.text()


@pytest.mark.parametrize(("seconds", "cells"), [(0, 0), (5, 6), (9.9, 11), (10, 11), (1000, 11)])
def test_the_bar_is_never_full(seconds: float, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0 + seconds)
    text = starting_text(ProgressStep("compiling", 100.0, 10.0), ASCII)
    assert text.endswith("#" * cells + "-" * (12 - cells))


def test_a_value_that_is_made_ahead_is_waited_for_and_its_error_raised() -> None:
    may = threading.Event()

    def make() -> int:
        may.wait(30)
        return 7

    ahead = Ahead(make)
    threading.Timer(0.05, may.set).start()
    ahead.wait(0.0)
    assert ahead.take() == 7

    def fails() -> int:
        raise ValueError("no value")

    with pytest.raises(ValueError, match="no value"):
        Ahead(fails).wait(30)
    with pytest.raises(ValueError, match="no value"):
        Ahead(fails).take()
