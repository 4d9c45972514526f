"""The pictures of the documentation can be drawn, show what they are for, and are those of this program."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from scripts.screenshots import PICTURES, Picture, draw

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
WORDS = {
    "demo": "bert-trainer",
    "operations": "cudaLaunchKernel",
    "light": "SIMULATED",
    "help": "NCCL",
    "row": "How long calls took",
    "why": "What to do",
    "shared": "a split is not measurable here",
}


pytestmark = pytest.mark.usefixtures("utc")


def text(svg: str) -> str:
    """What can be read in a picture, a line each."""
    return unescape("\n".join(re.findall(r"<text [^>]*>([^<]*)</text>", svg))).replace("\xa0", " ")


def words(svg: str) -> set[str]:
    """Words of a picture. Figures are left out: their last digits may be others with another numpy."""
    return set(re.findall(r"[A-Za-z]{3,}", text(svg)))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
async def test_pictures_are_of_this_program(picture: Picture) -> None:
    svg = await draw(picture)
    assert svg.startswith("<svg")
    assert "@font-face" not in svg
    assert WORDS[picture.name] in text(svg)
    kept = (IMAGES / f"{picture.name}.svg").read_text(encoding="utf-8")
    assert words(kept) == words(svg), "draw them anew: python scripts/screenshots.py"
