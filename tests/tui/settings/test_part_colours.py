"""Tests that the parts of a call's time and the severities can be told apart by their colours.

This is tested for every theme with colours, for 24-bit and for 256 colours, and for colour-blind eyes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
from rich.color import Color
from textual.theme import Theme

from stalltop.model.window import SPLITS
from stalltop.tui.problems.chains import ROLE
from stalltop.tui.settings.theme import THEMES
from stalltop.widgets.drawing.palette import PREFIX, parse
from tests.tui.settings.colour_vision import EYES, contrast, distance, in_256_colours, lab

BESIDE = ("running", "runqueue", "gpu", "lock", "network", "sleep")
"""The parts that most often stand side by side in a bar."""
PARTS_DIFFER = {"normal": 17.0, "protanopia": 9.0, "deuteranopia": 9.0}
"""Least distance (CIEDE2000) of the colours of any two parts, for each kind of eyes. Dichromats see only hues
from blue to yellow. For them ten parts and three severities must also differ in lightness, so each pair
differs less."""
BESIDE_DIFFER = {"normal": 22.0, "protanopia": 14.0, "deuteranopia": 16.0}
"""Least distance of the colours of any two parts of ``BESIDE``, for each kind of eyes."""
FROM_SEVERITY = {"normal": 13.0, "protanopia": 9.0, "deuteranopia": 8.0}
"""Least distance of a part's colour from that of any severity, for each kind of eyes."""
SEVERITIES_DIFFER = {"normal": 16.0, "protanopia": 8.0, "deuteranopia": 6.0}
"""Least distance of the colours of two severities, for each kind of eyes. Critical and high are not compared:
they have the same colour, and differ because critical fills the cell with it."""
FROM_GROUND = {"normal": 17.0, "protanopia": 9.0, "deuteranopia": 14.0}
"""Least distance of a part's colour from the background of the theme, for each kind of eyes."""
LETTER_CONTRAST = 4.5
"""Least contrast of the letter that stands for a part, as WCAG 2.2 requires of text (success criterion 1.4.3,
AA)."""
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "config.md"
COLOURED = [theme for theme in THEMES if not theme.ansi]
SHOWN = {"24-bit": lambda color: color, "256": in_256_colours}

Shown = Callable[[Color], Color]

each_eyes = pytest.mark.parametrize("eyes", EYES)
each_theme = pytest.mark.parametrize("theme", COLOURED, ids=lambda theme: theme.name)
each_number_of_colours = pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)


def colour(theme: Theme, role: str, shown: Shown, *, letter: bool = False) -> Color:
    """Return the colour of a role on the terminal: its background if it has one and ``letter`` is false."""
    style = parse(theme.variables[PREFIX + role])
    found = style.color if letter or style.bgcolor is None else style.bgcolor
    assert found is not None, role
    return shown(found)


def severities(theme: Theme, shown: Shown) -> dict[str, Color]:
    return {severity: colour(theme, role, shown) for severity, role in ROLE.items() if severity != "info"}


@each_theme
@each_number_of_colours
@each_eyes
def test_any_two_parts_differ(theme: Theme, shown: Shown, eyes: str) -> None:
    parts = {name: colour(theme, name, shown) for name in SPLITS}
    for one, other in combinations(SPLITS, 2):
        far = distance(parts[one], parts[other], eyes)
        assert far >= PARTS_DIFFER[eyes], (one, other)
        assert far >= BESIDE_DIFFER[eyes] or not {one, other} <= set(BESIDE), (one, other)


@each_theme
@each_number_of_colours
@each_eyes
def test_no_part_looks_like_a_severity(theme: Theme, shown: Shown, eyes: str) -> None:
    for name in SPLITS:
        part = colour(theme, name, shown)
        for severity, bad in severities(theme, shown).items():
            assert distance(part, bad, eyes) >= FROM_SEVERITY[eyes], (name, severity)


@each_theme
@each_number_of_colours
@each_eyes
def test_severities_differ(theme: Theme, shown: Shown, eyes: str) -> None:
    found = severities(theme, shown)
    assert found.pop("critical") == found["high"]
    for one, other in combinations(found, 2):
        assert distance(found[one], found[other], eyes) >= SEVERITIES_DIFFER[eyes], (one, other)


@each_theme
@each_number_of_colours
@each_eyes
def test_every_part_stands_out_from_the_background(theme: Theme, shown: Shown, eyes: str) -> None:
    ground = colour(theme, "ground", shown)
    for name in SPLITS:
        assert distance(colour(theme, name, shown), ground, eyes) >= FROM_GROUND[eyes], name


@each_theme
@each_number_of_colours
def test_the_letter_of_every_part_can_be_read(theme: Theme, shown: Shown) -> None:
    for name in SPLITS:
        letter = colour(theme, name, shown, letter=True)
        assert contrast(letter, colour(theme, name, shown)) >= LETTER_CONTRAST, name


def test_parts_of_normal_work_are_less_vivid_than_waits() -> None:
    def chroma(name: str) -> float:
        seen = lab(colour(COLOURED[0], name, SHOWN["24-bit"]))
        return math.hypot(seen.a, seen.b)

    waits = min(map(chroma, ("runqueue", "disk", "memory", "lock", "network")))
    assert max(map(chroma, ("running", "gpu"))) < 15 < 25 < waits


@each_theme
@each_number_of_colours
def test_a_part_has_one_colour_in_all_themes(theme: Theme, shown: Shown) -> None:
    for name in SPLITS:
        assert colour(theme, name, shown) == colour(COLOURED[0], name, shown)


def test_the_document_promises_the_distances_that_are_tested() -> None:
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    head = next(at for at, row in enumerate(cells) if row[1:] == ["normal sight", *EYES[1:]])
    promised = [[float(cell) for cell in row[1:]] for row in cells[head + 2 : head + 6]]
    tested = (PARTS_DIFFER, BESIDE_DIFFER, FROM_SEVERITY, SEVERITIES_DIFFER)
    assert promised == [[least[eyes] for eyes in EYES] for least in tested]
