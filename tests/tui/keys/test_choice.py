"""Tests keys that the user chooses: which keys are allowed, and that they act and are shown everywhere."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

import pytest

from stalltop.tui.keys.actions import ACTIONS, choose, keymap
from stalltop.tui.keys.choice import key_named, keys_chosen
from stalltop.tui.keys.footer import footer
from stalltop.tui.main.tour import for_newcomers
from stalltop.tui.pages.help import help_page
from stalltop.tui.pages.help_screen import HelpScreen
from stalltop.tui.saving.screen import SaveScreen
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.settings.settings import SETTINGS, read, toml
from stalltop.tui.terminal.slow_line import offer
from tests.tui.screen import running
from tests.tui.sources import numbered


@pytest.fixture(autouse=True)
def _usual_keys() -> Iterator[None]:
    yield
    choose(())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("W", "W"),
        ("?", "question_mark"),
        ("-", "minus"),
        ("+", "plus"),
        ("/", "slash"),
        ("~", "tilde"),
        ("F5", "f5"),
        ("Ctrl+S", "ctrl+s"),
        ("space", "space"),
    ],
)
def test_a_key_is_written_as_its_sign_or_its_name(text: str, name: str) -> None:
    assert key_named(text) == name


@pytest.mark.parametrize("text", ["", "ctrl+i", "f13", "é", "\x1b", "hyper+x", "ww"])
def test_an_unknown_key_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a key"):
        key_named(text)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (3, "must be a table"),
        ({"sav": "W"}, "did you mean save"),
        ({"zzzzzz": "W"}, "docs/keys.md"),
        ({"save": []}, "must be a key"),
        ({"save": [3]}, "must be a key"),
        ({"save": "x"}, "x is the key of both 'compare' and 'save'"),
        ({"up": "j"}, "j is the key of both"),
        ({"save": "W", "theme": "W"}, "W is the key of both"),
    ],
)
def test_an_invalid_choice_is_rejected_with_a_reason(table: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        keys_chosen(table)


def test_two_actions_may_swap_their_keys() -> None:
    assert keys_chosen({"save": "x", "compare": "w"}) == (("save", ("x",)), ("compare", ("w",)))


def test_keys_are_read_from_the_settings_file_and_faults_reported() -> None:
    chosen = (("save", ("W",)), ("up", ("up", "f7")))
    text = toml({"keys": chosen})
    assert read(tomllib.loads(text)) == ({"keys": chosen}, [])
    _, (fault,) = read({"keys": {"save": "x"}})
    assert str(fault) == "keys: x is the key of both 'compare' and 'save'; choose another key for one"
    assert SETTINGS["keys"].default == ()


def test_chosen_keys_replace_the_defaults_wherever_keys_are_shown() -> None:
    choose((("save", ("W",)), ("freeze", ("f5",))))
    told = {action.id: action.key for action in ACTIONS}
    assert (told["save"], told["freeze"], told["theme"]) == ("W", "f5", "t")
    assert ("f5", "Freeze") in {(key, label) for key, label, _ in footer()}
    assert keymap() == {"save": "W", "freeze": "f5"}


async def test_chosen_keys_act_and_the_defaults_do_nothing() -> None:
    chosen = keys_chosen({"save": "x", "compare": "w", "help": "f1", "filter": "E", "down": "n", "pod": "f9"})
    options = RunOptions(interval=0.0, theme="dark", keys=chosen)
    async with running(numbered(0), size=(120, 30), options=options) as screen:
        await screen.named(["serve", "train"])
        main = screen.app.main
        await screen.sees("E Filter")
        first = main.tables.main.cursor_key
        await screen.press("n")
        assert main.tables.main.cursor_key != first
        await screen.press("up", "j")  # the second key of an action still acts
        assert main.tables.main.cursor_key != first
        await screen.press("w")
        await screen.sees("nothing is marked")
        await screen.press("x")
        await screen.until(lambda: isinstance(screen.app.screen, SaveScreen), "x does not save")
        await screen.press("escape", "question_mark")
        assert screen.app.screen is main
        await screen.press("f1")
        await screen.until(lambda: isinstance(screen.app.screen, HelpScreen), "f1 does not help")
        await screen.sees("f9    Pods")
        await screen.press("escape", "E", "s", "e", "r", "v", "n", "enter")
        await screen.named([])
        assert main.tables.views.first.filter == "servn", "letters typed into a filter are text, not keys"


def test_texts_name_the_chosen_keys() -> None:
    ids = ("in", "out", "warnings", "help", "less", "chains")
    choose([(name, (f"f{number}",)) for number, name in enumerate(ids, start=1)])
    helped = ["".join(text for text, _ in line.parts) for line in help_page()]
    told = "\n".join((for_newcomers(200), offer(), *helped))
    for usual in ("press a", "press i", "b draws", "? all keys"):
        assert usual not in told, usual
    assert "f1 looks into a row; f2 goes back" in told
    assert "press f3 to list problems" in told
    assert "f4 explains all signs and keys" in told
    assert "f5 draws less" in told
    assert "a problem involves this row (f6: which)" in told
