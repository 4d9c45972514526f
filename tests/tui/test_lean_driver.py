"""Fewer bytes, and the terminal shows the same."""

from __future__ import annotations

import re

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.style import Style

from tui.lean_driver import lean

COLOURS = ("#d7dde3", "#5fb4f5", "red", "bright_blue", "color(200)", "default")
STYLES = st.builds(
    Style,
    color=st.sampled_from((None, *COLOURS)),
    bgcolor=st.sampled_from((None, *COLOURS)),
    bold=st.sampled_from((None, True)),
    italic=st.sampled_from((None, True)),
    underline=st.sampled_from((None, True)),
    reverse=st.sampled_from((None, True)),
    strike=st.sampled_from((None, True)),
)
TEXTS = st.sampled_from(("   ", "12.3ms", " ", "━━━", "a b", "▸"))
MOVES = st.builds("\x1b[{};{}H".format, st.integers(1, 5), st.integers(1, 20))
SYSTEMS = (ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT, ColorSystem.STANDARD)


def shown(text: str) -> list[list[pyte.screens.Char]]:
    """Every cell; blanks without the attributes that cannot be seen on them."""
    screen = pyte.Screen(40, 5)
    pyte.Stream(screen).feed(text)
    cells = [[screen.buffer[y][x] for x in range(40)] for y in range(5)]
    return [
        [
            cell._replace(bold=False, italics=False, fg="default")
            if cell.data == " " and not (cell.reverse or cell.underscore or cell.strikethrough)
            else cell
            for cell in line
        ]
        for line in cells
    ]


@given(st.lists(st.one_of(MOVES, st.tuples(STYLES, TEXTS)), max_size=12), st.sampled_from(SYSTEMS))
def test_the_same_is_shown(parts: list[str | tuple[Style, str]], system: ColorSystem) -> None:
    text = "".join(
        part if isinstance(part, str) else part[0].render(part[1], color_system=system) for part in parts
    )
    short = lean(text)
    assert shown(short) == shown(text)
    assert len(short) <= len(text)
    # Whatever else is written after it is plain.
    assert shown(short + "\x1b[1;1Hafter") == shown(text + "\x1b[1;1Hafter")


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("plain", "plain"),
        ("\x1b[31ma\x1b[0m\x1b[31mb\x1b[0m", "\x1b[31mab\x1b[0m"),
        ("\x1b[31;44ma\x1b[0m\x1b[32;44mb\x1b[0m", "\x1b[31;44ma\x1b[32mb\x1b[0m"),
        ("\x1b[31;44ma\x1b[0m\x1b[32;44m  \x1b[0m\x1b[31;44mb\x1b[0m", "\x1b[31;44ma  b\x1b[0m"),
        ("\x1b[31ma\x1b[0m\x1b[2;3H\x1b[31mb\x1b[0m", "\x1b[31ma\x1b[2;3Hb\x1b[0m"),
        ("\x1b[1;31ma\x1b[0m\x1b[31mb\x1b[0m", "\x1b[1;31ma\x1b[0;31mb\x1b[0m"),
        ("\x1b[7ma\x1b[0m  b", "\x1b[7ma\x1b[0m  b"),
        ("\x1b[31ma\x1b[0mb", "\x1b[31ma\x1b[0mb"),
        ("\x1b[4:3ma\x1b[0mb", "\x1b[4:3ma\x1b[0mb"),
        ("\x1b[01;031ma\x1b[22mb\x1b[mc", "\x1b[01;031ma\x1b[22mb\x1b[0mc"),
        # No style, though it ends alike.
        ("\x1b[>4;1m\x1b[?1000h\x1b[31ma\x1b[m", "\x1b[>4;1m\x1b[?1000h\x1b[31ma\x1b[0m"),
    ],
)
def test_only_what_changes_is_said(text: str, short: str) -> None:
    assert lean(text) == short


@given(st.text(st.sampled_from("\x1b[0123456789;:mH a"), max_size=40))
def test_anything_is_taken(text: str) -> None:
    # Nothing but styles is left out.
    def rest(text: str) -> str:
        return re.sub(r"\x1b\[[\d;:]*m", "", text)

    assert rest(lean(text)) == rest(text)
