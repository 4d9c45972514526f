"""Tests that the pictures of the documentation can be drawn and are up to date, and those of few colours."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from rich.color import Color
from rich.terminal_theme import SVG_EXPORT_THEME

from scripts.record_tour import frames
from scripts.record_tour import svg as animation
from scripts.screenshots import (
    COLOURS,
    SCREENSHOTS,
    TRUE_COLOUR,
    XTERM,
    Screenshot,
    TerminalColours,
    draw,
    every,
)

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images"
WORDS = {
    "demo": "bert-trainer",
    "operations": "cudaDeviceSynchronize",
    "light": "SIMULATED",
    "help": "Legend",
    "row": "How long calls took",
    "why": "What to do",
    "shared": "the share of each tenant is not",
}


pytestmark = pytest.mark.usefixtures("utc")


def text(svg: str) -> str:
    """Return the text of a picture, one line per element."""
    return unescape("\n".join(re.findall(r"<text [^>]*>([^<]*)</text>", svg))).replace("\xa0", " ")


def words(svg: str) -> set[str]:
    """Return the words of a picture without numbers, whose last digits depend on the version of numpy."""
    return set(re.findall(r"[A-Za-z]{3,}", text(svg)))


@pytest.mark.parametrize("picture", SCREENSHOTS, ids=lambda picture: picture.name)
async def test_screenshots_are_up_to_date(picture: Screenshot) -> None:
    svg = await draw(picture)
    assert svg.startswith("<svg")
    assert "@font-face" not in svg
    assert WORDS[picture.name] in text(svg)
    kept = (IMAGES / f"{picture.name}.svg").read_text(encoding="utf-8")
    assert words(kept) == words(svg), "draw the screenshots again: python scripts/screenshots.py"


def places(svg: str) -> set[tuple[str, str]]:
    """Return the words of all frames of an animation, each with the height of its line."""
    found = re.findall(r'<text [^>]*\by="(\d+)"[^>]*>([^<]*)</text>', svg)
    return {(y, word) for y, line in found for word in re.findall(r"[A-Za-z]{3,}", unescape(line))}


async def test_the_tour_is_up_to_date() -> None:
    drawn = places(animation(await frames()))
    assert {"chat", "trainer", "straggler"} <= {word for _, word in drawn}
    kept = places((IMAGES / "tour.svg").read_text(encoding="utf-8"))
    assert kept == drawn, "draw the tour again: python scripts/record_tour.py"


def colours(svg: str) -> set[str]:
    """Return the colours of all cells of a picture, but not those of its frame."""
    return {"".join(one) for one in re.findall(r'-r\d+ \{ fill: (#\w{6})|<rect fill="(#\w{6})" x=', svg)}


def palette(terminal: TerminalColours) -> set[str]:
    """Return the colours that ``terminal`` can show."""
    if terminal.name == "8":
        eight = [XTERM.ansi_colors[number] for number in range(8)]
        return {one.hex for one in (*eight, XTERM.foreground_color, XTERM.background_color)}
    default = SVG_EXPORT_THEME.foreground_color.hex
    return {default, *(Color.from_ansi(number).get_truecolor().hex for number in range(16, 256))}


@pytest.mark.parametrize("terminal", COLOURS, ids=lambda terminal: terminal.name)
async def test_a_terminal_gets_only_colours_that_it_has(terminal: TerminalColours) -> None:
    picture = next(one for one in every() if one.name == f"slow-disk-80x24-{terminal.name}")
    svg = await draw(picture)
    if terminal is TRUE_COLOUR:
        assert not colours(svg) <= palette(COLOURS[1])
    else:
        assert colours(svg) <= palette(terminal)
    assert len(colours(svg)) > 3
    # A pattern follows the letter of a part on a terminal with 8 colours, a coloured line or block on others.
    assert bool(re.search("R─+|g═+", text(svg))) == (terminal.name == "8")
