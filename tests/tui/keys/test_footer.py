"""Tests the line of keys at the bottom of the screen: the keys for the current state come first."""

from __future__ import annotations

from typing import Any

import pytest

from stalltop.tui.keys.actions import BY_ID
from stalltop.tui.keys.footer import FOOTER, FOOTER_OF_WARNINGS, footer
from stalltop.tui.screens.run_options import RunOptions
from tests.tui.screen import Screen, running
from tests.tui.sources import numbered

STILL = RunOptions(interval=0.0, theme="dark", still=True)


def on(width: int, **state: Any) -> str:
    """Return the line of keys, in the given state of the screen, as a terminal of ``width`` columns shows
    it."""
    line = ""
    for key, label, _ in footer(width=width, **state):
        entry = f" {key} {label} "
        if len(line) + len(entry) > width:
            break
        line += entry
    return line


@pytest.mark.parametrize(
    ("state", "wanted", "never"),
    [
        ({}, ("Enter Open", "Space Freeze", "a Problems", "i Why", "A Actions"), "Esc"),
        ({"out": "Back"}, ("? Help  Esc Back", "Enter Open", "A Actions"), "Clear"),
        ({"out": "Clear"}, ("? Help  Esc Clear",), "Back"),
        ({"frozen": True}, ("Space Live", "[ ] Time"), "Freeze"),
        ({"enlarged": True}, ("? Help  e All panels",), "Enlarge"),
        ({"enlarged": True, "out": "Back"}, ("Esc Back  e All panels",), "Enlarge"),
        ({"still": True}, ("Enter Open", "i Why"), "Freeze"),
        ({"warnings": True}, ("Enter Open", "Esc Back", "z Silence"), "Group by"),
        ({"warnings": True, "out": "Clear"}, ("Esc Back",), "Clear"),
    ],
)
def test_80_columns_show_the_keys_for_the_current_state(
    state: dict[str, Any], wanted: tuple[str, ...], never: str
) -> None:
    line = on(80, **state)
    assert line.startswith(" q Quit  ? Help  ")
    assert " w Save " in line
    assert [text for text in wanted if text not in line] == []
    assert never not in line


def test_a_wide_line_has_all_keys_and_a_saved_window_has_no_time_keys() -> None:
    assert {name for ids, _ in (*FOOTER, *FOOTER_OF_WARNINGS) for name in ids} <= set(BY_ID)
    wide = on(400)
    keys = (
        "D GPUs",
        "m x Compare",
        ". Expand",
        "v Two rows",
        "C Columns",
        "f Which rows",
        "e Enlarge",
        "[ ] Time",
    )
    assert [text for text in keys if text not in wide] == []
    assert "c o p d Group by" in on(120)
    assert " c containers  o operations  p processes  d devices " in on(160)
    for state in ({"still": True}, {"still": True, "warnings": True}):
        line = on(400, **state)
        assert [text for text in ("Freeze", "Window", "Time", "Compare") if text in line] == []


async def keys_say(screen: Screen, text: str) -> None:
    screen.app.main.speech.hush()
    await screen.until(lambda: text in screen.text().splitlines()[-1], f"never {text!r} in the line of keys")


async def test_the_line_of_keys_follows_the_state_of_the_screen() -> None:
    async with running(numbered(0), size=(80, 24), options=STILL) as screen:
        await keys_say(screen, "/ Filter")
        assert "Esc" not in screen.line(23)
        await screen.press("enter")
        await keys_say(screen, "Esc Back")
        await screen.press("e")
        await keys_say(screen, "e All panels")
        await screen.press("e", "escape")
        await screen.until(lambda: "Esc" not in screen.line(23))
        assert "All panels" not in screen.line(23)
        await screen.press("slash", "s", "e", "enter")
        await keys_say(screen, "Esc Clear")
        await screen.press("escape")
        await screen.until(lambda: "Esc" not in screen.line(23))
        await screen.press("a")
        await keys_say(screen, "Enter Open")


async def test_while_a_filter_is_typed_the_keys_that_end_it_stay_visible() -> None:
    async with running(numbered(0), size=(80, 24), options=STILL) as screen:
        await screen.press("slash", "x", "z", "q")
        await screen.until(lambda: "xzq" in screen.line(23))
        assert "Enter keeps  Esc clears" in screen.line(23)
        await screen.pilot.resize_terminal(50, 20)
        await screen.until(lambda: "Enter keeps" not in screen.text())
        assert "xzq" in screen.text()
