"""Tests the palette of actions (Ctrl-P), the help of every screen, and the hint for new users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from textual.command import CommandList
from textual.dom import DOMNode
from textual.widgets import Input

from stalltop.tui.keys.actions import ACTIONS, printed
from stalltop.tui.keys.words import WORDS
from stalltop.tui.main_keys.time_keys import ONE_MOMENT
from stalltop.tui.palette import WITHOUT_KEYS, ActionPalette, Doable, doable, found
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.settings.settings import Settings
from tests.tui.screen import running
from tests.tui.sources import numbered

INHERITED = {"ctrl+q", "shift+tab", "super+c"}
"""Keys that Textual binds on every screen: quit, move the focus back, copy a selection."""


async def test_every_key_of_the_main_screen_is_in_the_table_and_the_palette() -> None:
    async with running(numbered(0), size=(120, 40)) as screen:
        main = screen.app.main
        known = {key for action in ACTIONS for key in action.keys + action.also}
        assert set(main.active_bindings) - INHERITED == known
        more = [name for name, _, _ in WITHOUT_KEYS]
        assert [one.name for one in doable(main)] == [*(action.label for action in ACTIONS), *more]
        assert [one.keys for one in doable(main)] == [
            *(action.key for action in ACTIONS),
            *("" for _ in more),
        ]
        assert printed("question_mark") == "?"


async def test_the_palette_finds_actions_by_any_word_and_does_them() -> None:
    async with running(numbered(0), size=(100, 30)) as screen:
        for typed, seen in (
            ("by layer", "Layers: Group rows by layer"),
            ("freeze disp", "Freeze: Freeze display (counting continues)"),
        ):
            await screen.press("ctrl+p")
            await screen.until(lambda: isinstance(screen.app.screen, ActionPalette))
            await screen.press(*(("space" if letter == " " else letter) for letter in typed))
            found = screen.app.screen.query_one(CommandList)
            await screen.until(lambda found=found: found.option_count == 1)  # type: ignore[misc]
            await screen.sees(seen)
            await screen.press("ctrl+p")  # opens no second palette
            await screen.press("enter")
            await screen.until(lambda: screen.app.screen is screen.app.main)
        await screen.until(lambda: "runtime" in screen.names())
        await screen.sees("done: Freeze")
        screen.app.main.speech.hush()
        await screen.sees("Space Live")


async def test_enter_in_the_palette_does_the_first_of_several() -> None:
    async with running(numbered(0), size=(100, 30)) as screen:
        await screen.press("o")
        await screen.until(lambda: "serve" not in screen.names())
        await screen.press("ctrl+p")
        await screen.until(lambda: isinstance(screen.app.screen, ActionPalette))
        await screen.press(*"by")
        found = screen.app.screen.query_one(CommandList)
        await screen.until(lambda: 1 < found.option_count < len(ACTIONS) // 2 and found.highlighted == 0)
        await screen.press("enter")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        await screen.named(["serve", "train"])


async def test_enter_right_after_typing_does_what_was_typed() -> None:
    async with running(numbered(0), size=(100, 30)) as screen:
        await screen.press("o")
        await screen.until(lambda: "serve" not in screen.names())
        for typed, seen in (("containers", "done: Containers"), ("theme light", "colours: light")):
            await screen.press("ctrl+p")
            await screen.until(lambda: isinstance(screen.app.screen, ActionPalette))
            palette = screen.app.screen
            # Simulates that all keys come in one packet: when Enter comes, the palette has not searched yet.
            line = palette.query_one(Input)
            with palette.prevent(Input.Changed):
                line.value = typed
            await screen.press("enter")
            await screen.until(lambda: screen.app.screen is screen.app.main)
            await screen.sees(seen)
        await screen.named(["serve", "train"])
        assert screen.app.theme == "light"
        await screen.press("ctrl+p")
        await screen.until(lambda: isinstance(screen.app.screen, ActionPalette))
        line = screen.app.screen.query_one(Input)
        with screen.app.screen.prevent(Input.Changed):
            line.value = "zzz"
        said = screen.app.main.speech.count
        await screen.press("enter", "escape", "escape")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        assert screen.app.main.speech.count == said


async def test_themes_and_lengths_of_the_window_are_found_by_name() -> None:
    async with running(numbered(0), size=(100, 30)) as screen:
        for typed, seen in (
            ("light", "colours: light"),
            ("5 min", "window: last 300s"),
            ("since", "since start"),
        ):
            await screen.press("ctrl+p")
            await screen.until(lambda: isinstance(screen.app.screen, ActionPalette))
            await screen.press(*(("space" if letter == " " else letter) for letter in typed), "enter")
            await screen.until(lambda: screen.app.screen is screen.app.main)
            await screen.sees(seen)
        assert screen.app.main.moments.length is None
        # The window is already the longest, so the key changes nothing; the message says so.
        await screen.press("plus")
        await screen.sees("window: since start, the longest")


async def test_a_saved_window_says_why_it_cannot_be_frozen() -> None:
    options = RunOptions(interval=0.0, theme="dark", still=True)
    async with running(numbered(0), size=(100, 30), options=options) as screen:
        await screen.named(["serve", "train"])
        await screen.press("space")
        await screen.sees(ONE_MOMENT)
        assert not screen.app.main.moments.frozen


async def test_the_palette_resets_the_layout() -> None:
    options = RunOptions(interval=0.0, theme="dark", share=70, panels=("table",), sort="p99")
    async with running(numbered(0), size=(120, 42), options=options) as screen:
        await screen.named(["serve", "train"])
        tables = screen.app.main.tables
        tables.views.choose_columns("container", ("n",))
        tables.redraw()
        await screen.press("ctrl+p")
        await screen.until(lambda: isinstance(screen.app.screen, ActionPalette))
        await screen.press(*"reset")
        found = screen.app.screen.query_one(CommandList)
        await screen.until(lambda: found.option_count == 1)
        await screen.press("enter")
        await screen.sees("reset: panels, sizes")
        choices = screen.app.main.choices()
        usual = Settings()
        assert {name: choices[name] for name in ("panels", "share", "sort", "descending", "columns")} == {
            name: getattr(usual, name) for name in ("panels", "share", "sort", "descending", "columns")
        }


async def test_the_palette_of_another_screen_lists_its_actions() -> None:
    async with running(numbered(0), size=(100, 30)) as screen:
        await screen.press("a", "enter")
        await screen.sees("What to do")
        names = {one.name for one in doable(screen.app.screen)}
        assert {"Close", "Copy fix", "Silence", "Help", "Down"} <= names
        assert "Containers" not in names
        await screen.press("ctrl+p")
        await screen.until(lambda: isinstance(screen.app.screen, ActionPalette))
        await screen.press(*"silence")
        await screen.sees("Silence this problem")
        await screen.press("down", "enter")
        await screen.until(lambda: bool(screen.app.main.panel.silenced.keys))
        await screen.press("question_mark")
        await screen.sees("Legend")
        await screen.sees("Page of a problem")
        await screen.press("question_mark")
        await screen.sees("What to do")


async def test_text_cursors_do_not_blink_and_inputs_can_be_ascii() -> None:
    options = RunOptions(interval=0.0, theme="dark", ascii=True)
    async with running(numbered(0), size=(100, 30), options=options) as screen:
        for key in ("slash", "ctrl+p"):
            await screen.press(key)
            await screen.until(lambda: isinstance(screen.app.focused, Input))
            assert isinstance(screen.app.focused, Input)
            await screen.until(lambda: not screen.app.focused.cursor_blink)  # type: ignore[union-attr]
            assert screen.text().isascii(), screen.text()
            await screen.press("escape")


async def test_the_line_for_newcomers_is_shown_once_and_ends_with_any_key() -> None:
    kept: list[Mapping[str, object]] = []
    options = RunOptions(interval=0.0, theme="dark", keep=kept.append)
    for size, words in (((120, 40), "First start, step 2: Enter looks"), ((70, 20), "2. Enter into a row")):
        async with running(numbered(0), size=size, options=options) as screen:
            await screen.sees(words)
            await screen.sees("any word")
            await screen.press("down")
            await screen.until(lambda: "any word" not in screen.text())
            await screen.feed(numbered(1))
            assert "any word" not in screen.text()
            assert screen.app.main.choices()["tour"] is False
    for other in (replace(options, tour=False), replace(options, keep=None)):
        async with running(numbered(0), size=(120, 40), options=other) as screen:
            await screen.sees("CONTAINER")
            assert "any word" not in screen.text()


SOUGHT = {
    "kill": "commands",
    "taskset": "commands",
    "chart": "graphs",
    "slow": "warnings",
    "gpu": "devices",
    "export": "save",
    "screenshot": "save",
    "pause": "freeze",
    "zoom": "enlarge",
    "help": "help",
    "sort": "sort",
    "why": "chains",
    "noisy neighbour": "warnings",
    "search": "filter",
    "exit": "quit",
    "colour": "theme",
    "ssh": "less",
    "docker": "container",
    "kubernetes": "pod",
    "nvidia": "devices",
    "csv": "save",
    "rewind": "back",
    "replay": "play",
    "diff": "compare",
    "clipboard": "copy",
    "alerts": "warnings",
    "hide": "silence",
    "reset": "reset_layout",
    "default": "reset_layout",
    "fields": "columns",
    "expand": "unfold",
    "fullscreen": "enlarge",
    "legend": "help",
    "shortcuts": "help",
    "log": "record",
    "cpu": "panel_host",
    "culprit": "chains",
    "temperature": "devices",
    "regex": "filter",
    "history": "back",
    "resume": "freeze",
    "time travel": "back",
    "redraw": "repaint",
    "cause": "chains",
    "memcpy": "operation",
    "flame graph": "stacks",
    "python": "stacks",
}
"""What people type, and the action that they mean."""


def test_the_palette_finds_actions_by_the_words_that_people_use() -> None:
    assert len(SOUGHT) >= 40
    assert set(WORDS) == {action.id for action in ACTIONS}
    node = DOMNode()
    every = [Doable(one.label, one.help, one.key, one.id, node, WORDS[one.id]) for one in ACTIONS]
    missed = {
        typed: [one.action for one in found(every, typed)[:3]]
        for typed, meant in SOUGHT.items()
        if meant not in [one.action for one in found(every, typed)[:3]]
    }
    assert not missed


async def test_a_key_resets_everything_that_keys_changed() -> None:
    options = RunOptions(interval=0.0, theme="dark", sort="worst")
    async with running(numbered(0), size=(120, 42), options=options) as screen:
        await screen.named(["serve", "train"])
        before = screen.app.main.choices()
        await screen.press("s", "r", "plus", "1", "f", "slash", *"train", "enter")
        await screen.named(["train"])
        await screen.press("0")
        await screen.sees("reset: panels, sizes, columns, order, filter and window")
        await screen.named(["serve", "train"])
        assert screen.app.main.choices() == before
