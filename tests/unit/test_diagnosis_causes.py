"""Every cause is described in docs/causes.md, in the same way, and links there lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from diagnosis.causes import CAUSES
from diagnosis.host.waits import DESCRIBED
from model.chain import SEVERITIES

TEXT = (Path(__file__).parent.parent.parent / "docs" / "causes.md").read_text()
SECTIONS = {
    heading.split(":")[0]: (heading, body)
    for heading, body in re.findall(r"^## (.+?)\n(.*?)(?=^##? |\Z)", TEXT, re.MULTILINE | re.DOTALL)
}
PARTS = ("What it is", "Signal", "What it is not", "Example", "Fix")


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_its_section(cause: str) -> None:
    heading, body = SECTIONS[cause]
    assert heading == f"{cause}: {CAUSES[cause].title}"
    places = [body.find(f"**{part}.**") for part in PARTS]
    assert all(place >= 0 for place in places), places
    assert places == sorted(places)


def test_no_section_is_about_something_else() -> None:
    assert set(SECTIONS) == set(CAUSES)


def test_links_within_the_document_lead_to_headings() -> None:
    headings = re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    links = set(re.findall(r"\]\(#([^)]+)\)", TEXT))
    assert links
    assert links <= anchors


def test_causes_are_well_formed() -> None:
    for name, cause in CAUSES.items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name)
        assert cause.id == name
        assert cause.least in SEVERITIES
        assert cause.stays_seconds > 0
    assert set(DESCRIBED) <= set(CAUSES)
