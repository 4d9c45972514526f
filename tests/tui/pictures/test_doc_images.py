"""Tests that the screenshots of the documentation can be drawn and are up to date."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from scripts.screenshots import SCREENSHOTS, Screenshot, draw

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
