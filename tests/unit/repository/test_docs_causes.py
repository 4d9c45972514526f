"""Tests that each cause has one section in docs/causes.md, in a common format with working links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.causes import CAUSES
from stalltop.model.chain import SEVERITIES

_TEXT = (Path(__file__).resolve().parents[3] / "docs" / "causes.md").read_text(encoding="utf-8")
_SECTIONS = {
    name: (title, text)
    for name, title, text in re.findall(r"^## (\w+): (.+)\n((?:(?!^#).*\n)+)", _TEXT, re.MULTILINE)
}


def test_causes_and_sections_match() -> None:
    assert set(_SECTIONS) == set(CAUSES)


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES.keys())
def test_every_section_has_the_same_parts(cause: Cause) -> None:
    title, text = _SECTIONS[cause.id]
    assert title == cause.title
    parts = re.findall(r"^\*\*(.+?)\.\*\*", text, re.MULTILINE)
    assert parts == ["What it is", "Signal", "What it is not", "Example", "Fix"]


def test_links_within_the_page_have_targets() -> None:
    anchors = {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", _TEXT, re.MULTILINE)
    }
    links = set(re.findall(r"\]\(#([^)]+)\)", _TEXT))
    assert links
    assert links <= anchors


def test_causes_are_well_formed() -> None:
    for name, cause in CAUSES.items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name)
        assert cause.id == name
        assert cause.least in SEVERITIES
        assert cause.stays_seconds > 0
