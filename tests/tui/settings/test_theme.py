"""Tests that every text is readable on its background in every theme."""

from __future__ import annotations

import pytest
from textual.theme import Theme

from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.settings.palettes import THEME_NAMES
from stalltop.tui.settings.theme import LETTERED, THEMES, chosen, many_colours
from stalltop.widgets.drawing.palette import PREFIX, ROLES, parse
from tests.tui.screen import running
from tests.tui.settings.colour_vision import contrast
from tests.windows.by_hand import Calls, key, window

LEAST = 4.5
"""Minimum contrast of text that WCAG 2.2 requires (success criterion 1.4.3, level AA)."""
ON_BAR = ("text", "dim", "head", "good", "warn", "bad", "label")
"""Roles of text on the first and the last line, which have a background of their own."""
COLOURED = [theme for theme in THEMES if not theme.ansi]


@pytest.mark.parametrize("theme", COLOURED, ids=lambda theme: theme.name)
def test_every_text_can_be_read(theme: Theme) -> None:
    style = {role: parse(theme.variables[PREFIX + role]) for role in ROLES}
    ground, bar = style["ground"].bgcolor, style["bar"].bgcolor
    assert ground is not None
    assert bar is not None
    poor = []
    for role, one in style.items():
        if role in ("track", "meter") or role.endswith("_line"):  # lines of bars: no text
            continue
        assert one.color is not None, role
        below = {"ground": one.bgcolor or ground}
        if role in ON_BAR:
            below["bar"] = bar
        poor += [
            (role, name, round(found, 2))
            for name, colour in below.items()
            if (found := contrast(one.color, colour)) < LEAST
        ]
    assert not poor


def test_all_themes_name_all_roles() -> None:
    assert set(LETTERED) <= set(THEME_NAMES)
    for theme in THEMES:
        assert {PREFIX + role for role in ROLES} <= set(theme.variables)


def test_nothing_blinks_and_mono_has_no_colour() -> None:
    for theme in THEMES:
        for role in ROLES:
            style = parse(theme.variables[PREFIX + role])
            assert not style.blink
            if theme.name == "mono":
                assert all(colour is None or colour.is_default for colour in (style.color, style.bgcolor)), (
                    role
                )


@pytest.mark.parametrize(
    ("term", "colorterm", "no_color", "wanted", "theme", "many"),
    [
        ("xterm-256color", "", "", "auto", "dark", True),
        ("xterm", "", "", "auto", "terminal", False),
        ("xterm", "truecolor", "", "auto", "dark", True),
        ("xterm", "", "", "light", "light", False),
        ("vt100", "", "", "", "terminal", False),
        ("xterm-256color", "truecolor", "1", "light", "mono", False),
        ("xterm-kitty", "", "", "no-such", "dark", True),
    ],
)
def test_the_theme_is_chosen_by_the_settings_and_the_terminal(
    term: str,
    colorterm: str,
    no_color: str,
    wanted: str,
    theme: str,
    many: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("TERM", term), ("COLORTERM", colorterm), ("NO_COLOR", no_color)):
        monkeypatch.setenv(name, value)
    assert chosen(wanted) == theme
    assert many_colours() == many


@pytest.mark.parametrize("theme", ["mono", "terminal", "dark"])
async def test_few_calls_are_marked_by_a_sign(theme: str) -> None:
    one = window([Calls(key(), [14_700_000] * 99), Calls(key("few"), [850] * 3)])
    async with running(one, size=(80, 24), options=RunOptions(interval=0.0, theme=theme)) as screen:
        await screen.press("o")
        await screen.sees(" few ")
        assert "~15ms" in screen.text()
        (few,) = (line for line in screen.text().splitlines() if " few " in line)
        assert few.count("~") == 2  # p95 and p99 are marked; three calls are enough for a median
        assert few.count("850ns") == 4
        assert len(few) == 80


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_long_durations_are_bold_in_every_theme_and_short_ones_dim_where_there_is_grey(theme: Theme) -> None:
    dim, text, bright = (parse(theme.variables[PREFIX + role]) for role in ("dim", "text", "bright"))
    assert (dim.bold, text.bold, bright.bold) == (None, None, True)
    if not theme.ansi:
        (ground,) = (parse(theme.variables[PREFIX + "ground"]).bgcolor,)
        assert ground is not None
        seen = [contrast(style.color, ground) for style in (dim, text, bright) if style.color is not None]
        assert seen == sorted(seen)
        assert seen[0] < seen[1]


@pytest.mark.parametrize(
    ("term", "colorterm", "theme", "letters"),
    [
        ("xterm-256color", "truecolor", "dark", False),
        ("xterm-256color", "", "light", False),
        ("xterm-256color", "", "colour-blind", False),
        ("xterm", "", "light", True),
        ("linux", "", "dark", True),
        ("xterm-256color", "truecolor", "terminal", True),
        ("xterm-256color", "truecolor", "mono", True),
    ],
)
async def test_bars_have_letters_and_patterns_where_the_terminal_or_the_theme_has_few_colours(
    term: str, colorterm: str, theme: str, letters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLORTERM", colorterm)
    one = window([Calls(key(), [1_000])], split=True)
    async with running(one, options=RunOptions(interval=0.0, theme=theme)) as screen:
        await screen.sees("R─────────" if letters else "R         ")
        assert screen.app.letters == letters
