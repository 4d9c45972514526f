"""Compares the live screen with saved pictures, at each size and in every theme."""

from __future__ import annotations

import string
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from rich.color import Color
from rich.style import Style

from stalltop.cli.tellings import tellings
from stalltop.demo.simulated.lines import stacks_of
from stalltop.recordings.read.reading import load
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.settings.palettes import THEME_NAMES
from tests.tui.pictures.comparing import SIZES, STATE, WINDOW, State, becomes, text
from tests.tui.screen import Screen, running

FOLDER = Path(__file__).resolve().parent / "snapshots"
LETTERS = string.ascii_letters + string.digits


MAIN = State("main")
CHAIN = State("chain", (("a", "C"), ("enter", "Esc closes")))
STACKS = State(
    "stacks",
    (
        ("slash", ""),
        *((key, "") for key in "bert"),
        ("enter", "filter: bert"),
        ("F", "bert-trainer   threads ran and waited"),
    ),
)
STATES = (
    MAIN,
    CHAIN,
    State("inside", (("enter", "containers › "),)),
    State("operations", (("o", "operations "),)),
    State("filter", (("slash", ""), *((key, "") for key in "cudamem"), ("enter", "filter: cudamem"))),
    State("row", (("I", "Row "),)),
    State("by-device", (("d", "DEVICE"),)),
    State("tree", (("asterisk", "- chat-server"),)),
    State("compare", (("home", ""), ("v", " is picked"), ("down", ""), ("v", "B/A"))),
    State("changes", (("m", "marked"), ("x", "changes since"))),
    STACKS,
    State("devices", (("D", " devices "),)),
    State("device", (("D", " devices "), ("enter", "Esc closes"))),
    State("columns", (("C", "P99"),)),
    State("save", (("w", "Save 10s"),)),
    State("help", (("question_mark", "Legend"),)),
)


@dataclass(frozen=True)
class Appearance:
    """The options that decide how the screen is drawn."""

    name: str
    theme: str = "dark"
    ascii: bool = False
    no_color: bool = False


LOOKS = (
    *(Appearance(name, theme=name) for name in THEME_NAMES),
    Appearance("no-color", theme="auto", no_color=True),
    Appearance("ascii", ascii=True),
)


@pytest.fixture(autouse=True)
def _same_everywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", STATE)
    monkeypatch.setattr("stalltop.formats.html.picture.png_problem", str)
    monkeypatch.setattr("stalltop.tui.main.status.QUIET_SECONDS", 1e9)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def _colour(colour: Color | None) -> str:
    if colour is None or colour.is_default:
        return "default"
    return colour.triplet.hex if colour.triplet is not None else colour.name


def _style(style: Style) -> str:
    """Describe the visible attributes of a style by words of this test, which no new version of Rich or
    Textual changes."""
    words = [word for word in ("bold", "dim", "italic", "underline", "reverse") if getattr(style, word)]
    return " ".join((*words, _colour(style.color), "on", _colour(style.bgcolor)))


def coloured(screen: Screen) -> str:
    """Return the text of the screen, the lines again with a letter for the style of each cell, and a legend
    of the letters."""
    letters: dict[str, str] = {}
    rows = []
    for strip in screen.app.screen._compositor.render_strips():
        row = ""
        for segment in strip:
            style = _style(segment.style or Style.null())
            row += letters.setdefault(style, LETTERS[len(letters)]) * segment.cell_length
        rows.append(row)
    legend = [f"{letter} {style}" for style, letter in letters.items()]
    return "\n".join((text(screen), *rows, "", *legend, ""))


async def compare(state: State, looks: Appearance, size: tuple[int, int], name: str, folder: Path) -> None:
    """Bring the screen into ``state`` and wait until it equals the picture in the file ``name``."""
    draw = coloured if name.startswith("looks-") else text
    options = RunOptions(interval=0.0, theme=looks.theme, ascii=looks.ascii, tellings=tellings)
    window = load(WINDOW)
    if state is STACKS:
        window = replace(window, stacks=stacks_of(window.rows))
    async with running(window, size=size, options=options) as screen:
        await screen.sees("bert-trainer")
        for key, words in state.steps:
            await screen.press(key)
            await screen.sees(words)
        await becomes(screen, FOLDER / f"{name}.txt", draw, folder)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
async def test_every_page_looks_as_saved_at_every_size(
    state: State, size: tuple[int, int], tmp_path: Path
) -> None:
    await compare(state, Appearance("dark"), size, f"{state.name}-{size[0]}x{size[1]}", tmp_path)


@pytest.mark.parametrize("looks", LOOKS, ids=lambda looks: looks.name)
@pytest.mark.parametrize("state", [MAIN, CHAIN], ids=lambda state: state.name)
async def test_main_and_chain_look_as_saved_in_every_theme(
    state: State, looks: Appearance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if looks.no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    await compare(state, looks, (100, 30), f"looks-{state.name}-{looks.name}", tmp_path)


def test_every_saved_picture_belongs_to_a_test() -> None:
    wanted = {f"{state.name}-{width}x{height}" for state in STATES for width, height in SIZES}
    wanted |= {f"looks-{state.name}-{looks.name}" for state in (MAIN, CHAIN) for looks in LOOKS}
    assert {path.stem for path in FOLDER.glob("*.txt")} == wanted
