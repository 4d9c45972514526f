"""Tests that each cause and each alert has its section in the runbook, and that alerts link to it."""

from __future__ import annotations

import re

import pytest
import yaml

from stalltop.diagnosis.causes import CAUSES
from stalltop.diagnosis.runbook import OWN_ALERTS, RUNBOOK, runbook_markdown
from tests.unit.repository.checkout import ROOT

RULES = yaml.safe_load((ROOT / "deploy" / "prometheus-rules.yml").read_text())["groups"][0]["rules"]
PAGE = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def test_every_cause_has_its_section() -> None:
    assert set(RUNBOOK) == set(CAUSES)
    assert set(CAUSES) <= anchors(PAGE)
    for steps in RUNBOOK.values():
        assert min(len(steps.confirm), len(steps.act)) > 10
        assert not steps.confirm.endswith(".")
        assert not steps.act.endswith(".")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_links_to_its_section(rule: dict[str, dict[str, str]]) -> None:
    page, anchor = rule["annotations"]["runbook"].split("#")
    assert page == "docs/runbook.md"
    if anchor == "{{ $labels.cause }}":
        assert set(CAUSES) <= anchors(PAGE)
    else:
        assert anchor in anchors(PAGE)


def test_every_own_alert_exists() -> None:
    assert set(OWN_ALERTS) == {rule["alert"] for rule in RULES} - {"StalltopProblem"}


def test_links_to_causes_have_targets() -> None:
    links = re.findall(r"causes\.md#([\w-]+)", runbook_markdown())
    assert len(links) == len(CAUSES)
    assert set(links) <= anchors((ROOT / "docs" / "causes.md").read_text(encoding="utf-8"))
