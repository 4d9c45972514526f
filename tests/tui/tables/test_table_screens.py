"""Tests saving, copying and time keys on the screens of the comparison, of devices and of warnings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.recordings.read.reading import load
from stalltop.tui.chain.warnings_screen import WarningsScreen
from stalltop.tui.device.screen import DevicesScreen
from stalltop.tui.pages.live import LiveScreen
from stalltop.tui.pair.screen import CompareScreen
from stalltop.tui.saving.screen import SaveScreen
from stalltop.tui.screens.run_options import RunOptions
from tests.tui.screen import running
from tests.tui.sources import numbered, with_devices


@pytest.mark.parametrize(
    ("kind", "keys", "copied", "key"),
    [
        (CompareScreen, ("v", "down", "v"), "cud", "Y"),
        (DevicesScreen, ("D",), "0 H100", "Y"),
        (WarningsScreen, ("a", "down", "enter"), "", "y"),
    ],
)
async def test_table_screens_can_be_saved_copied_and_stepped_through_time(
    kind: type[LiveScreen],
    keys: tuple[str, ...],
    copied: str,
    key: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    options = RunOptions(interval=0.0, theme="dark", window=1.0)
    async with running(
        *(with_devices(number, 2) for number in range(3)), size=(120, 30), options=options
    ) as screen:
        main = screen.app.main
        await screen.named(["serve", "train"])
        for one in keys:
            await screen.press(one)
        await screen.until(lambda: isinstance(screen.app.screen, kind), "never opened")
        await screen.press("left_square_bracket")
        await screen.sees("FROZEN")
        before = main.shown
        assert before is not None
        await screen.until(lambda: main.moments.wanted is None)
        await screen.press("w")
        await screen.until(lambda: isinstance(screen.app.screen, SaveScreen))
        await screen.until(lambda: "Enter saves" in screen.text())
        await screen.press("enter")
        await screen.until(lambda: isinstance(screen.app.screen, kind), "the dialogue stays")
        await screen.sees("saved ")
        (path,) = tmp_path.rglob("*.stalltop")
        shown = main.shown
        assert shown is not None
        assert load(path).end == shown.end
        await screen.press("y")
        await screen.until(lambda: screen.app.clipboard == str(path))
        await screen.press("plus")
        await screen.sees("window: last 10s")
        await screen.press(key)
        await screen.sees("sent to the terminal's clipboard")
        assert copied in " ".join(screen.app.clipboard.split())
        await screen.press("space")
        await screen.sees("live")
        await screen.press("escape")
        await screen.until(lambda: screen.app.screen is main)


@pytest.mark.parametrize("keys", [("I",), ("D",), ("question_mark",), ("a", "end", "enter")], ids=" ".join)
async def test_pages_keep_the_header_and_update_it(keys: tuple[str, ...]) -> None:
    async with running(numbered(0), size=(120, 30)) as screen:
        await screen.named(["serve", "train"])
        await screen.press(*keys)
        await screen.until(lambda: screen.app.screen is not screen.app.main, "no page")
        await screen.until(lambda: "LIVE" in screen.header(), "no header")
        worse = replace(numbered(1).chains[0], severity="critical")
        await screen.feed(replace(numbered(1), chains=(worse,)))
        await screen.until(lambda: "1C" in screen.header(), "the header does not count the new chain")
        await screen.pilot.resize_terminal(60, 7)
        await screen.until(lambda: "LIVE" not in screen.text(), "the header stays without room")
