"""Tests that every text is readable on its background in every theme."""

from __future__ import annotations

import pytest
from rich.color import Color
from textual.theme import Theme

from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.settings.palettes import THEME_NAMES
from stalltop.tui.settings.theme import LETTERED, THEMES, chosen, many_colours
from stalltop.widgets.drawing.palette import PREFIX, ROLES, parse
from tests.tui.screen import running
from tests.windows.by_hand import Calls, key, window

LEAST = 4.5
"""Minimum contrast of text that WCAG 2.2 requires (success criterion 1.4.3, level AA)."""
ON_BAR = ("text", "dim", "head", "good", "warn", "bad", "label")
"""Roles of text on the first and the last line, which have a background of their own."""
COLOURED = [theme for theme in THEMES if not theme.ansi]


def luminance(color: Color) -> float:
    """Return the relative luminance of a colour, as WCAG 2.2 defines it."""

    def linear(part: int) -> float:
        share = part / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = color.get_truecolor()
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)


def contrast(one: Color, other: Color) -> float:
    """Return the contrast ratio, as WCAG 2.2 defines it: from 1 for equal colours to 21 for black and
    white."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_matches_known_values() -> None:
    black, white, grey = (Color.parse(text) for text in ("#000000", "#ffffff", "#777777"))
    assert contrast(black, white) == pytest.approx(21.0)
    assert contrast(grey, white) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", COLOURED, ids=lambda theme: theme.name)
def test_every_text_can_be_read(theme: Theme) -> None:
    style = {role: parse(theme.variables[PREFIX + role]) for role in ROLES}
    ground, bar = style["ground"].bgcolor, style["bar"].bgcolor
    assert ground is not None
    assert bar is not None
    poor = []
    for role, one in style.items():
        if role == "track":  # the role of the empty part of a bar, which is no text
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


@pytest.mark.parametrize(("theme", "greys"), [("mono", False), ("terminal", False), ("dark", True)])
async def test_few_calls_are_marked_by_a_sign_in_colours_without_greys(theme: str, greys: bool) -> None:
    one = window([Calls(key(), [14_700_000] * 99), Calls(key("few"), [850] * 3)])
    async with running(one, size=(80, 24), options=RunOptions(interval=0.0, theme=theme)) as screen:
        await screen.press("o")
        await screen.sees(" few ")
        assert ("~14.7ms" in screen.text()) != greys
        (few,) = (line for line in screen.text().splitlines() if " few " in line)
        assert few.count("~") == (0 if greys else 1)  # marks p99 only: three calls suffice for a median
        assert few.count("850ns") == 3
        assert len(few) == 80
