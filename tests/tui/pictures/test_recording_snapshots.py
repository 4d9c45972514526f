"""Compares the screen on a recording with saved pictures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.cli.tellings import tellings
from stalltop.model.window import Window
from stalltop.recordings.read.reading import load
from tests.tui.past.recorded import OPTIONS, MemoryFile, opened
from tests.tui.pictures.comparing import SIZES, STATE, WINDOW, State, becomes, text

FOLDER = Path(__file__).resolve().parent / "snapshots_recording"
START = 1_763_000_000.0
"""2025-11-13 02:13:20 UTC."""

STATES = (
    State("end"),
    State(
        "fault",
        (("left_parenthesis", "a problem begins here"), ("L", "timeline: 1h"), ("L", "timeline: 15m")),
    ),
    State("typing", (("T", "Enter goes"),)),
    State("row", (("left_parenthesis", "a problem begins here"), ("I", "Row "))),
)


def windows() -> list[Window]:
    """Return 45 minutes of windows of ten seconds, all made from one saved window.

    Its chains are open from minute 16.7 for two minutes. After minute 30 there is a gap of half an hour.
    """
    saved = load(WINDOW)
    found = []
    for number in range(270):
        start = START + 10.0 * number + (1_800.0 if number >= 180 else 0.0)
        bad = 100 <= number < 112
        chains = tuple(
            replace(one, since=START + 990.0, seen=start + 10.0) for one in saved.chains if one.open
        )
        found.append(replace(saved, start=start, seconds=10.0, chains=chains if bad else ()))
    return found


@pytest.fixture(autouse=True)
def _same_everywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", STATE)
    monkeypatch.setattr("stalltop.tui.main.speech.SAID_SECONDS", 1_000.0)
    monkeypatch.setattr("stalltop.tui.pages.live.SAID_SECONDS", 1_000.0)
    monkeypatch.setattr("stalltop.tui.main.tour.FILE_SECONDS", 1_000.0)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
async def test_a_recording_looks_as_saved_at_every_size(
    state: State, size: tuple[int, int], tmp_path: Path
) -> None:
    options = replace(OPTIONS, window=10.0, tellings=tellings)
    async with opened(MemoryFile.of(windows()), size=size, options=options) as screen:
        await screen.sees("bert-trainer")
        await screen.until(lambda: len(screen.app.main.past) > 100)
        for key, words in state.steps:
            await screen.press(key)
            await screen.sees(words)
        await becomes(screen, FOLDER / f"{state.name}-{size[0]}x{size[1]}.txt", text, tmp_path)


def test_every_saved_picture_belongs_to_a_test() -> None:
    wanted = {f"{state.name}-{width}x{height}" for state in STATES for width, height in SIZES}
    assert {path.stem for path in FOLDER.glob("*.txt")} == wanted
