"""Tests the files for Grafana and Prometheus with the real Prometheus and promtool of Debian."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from scripts.dashboard import DASHBOARD, PANELS, dashboard_text, filled
from stalltop.model.chain import SEVERITIES
from tests.kernel.harness import wait_until
from tests.kernel.receivers.prometheus import FETCHED, PROMTOOL, ROOT, endpoint, prometheus
from tests.kernel.receivers.published import PublishedWindows
from tests.windows.full import full_window

pytestmark = [
    pytest.mark.beside,
    pytest.mark.skipif(not FETCHED, reason="Prometheus was not fetched"),
    pytest.mark.timeout(600),
]
RULES = ROOT / "deploy" / "prometheus-rules.yml"


def promtool(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [PROMTOOL, *arguments], capture_output=True, text=True, timeout=100, check=False, cwd=ROOT / "deploy"
    )
    return done.returncode, done.stdout + done.stderr


def test_the_dashboard_is_up_to_date() -> None:
    assert DASHBOARD.read_text(encoding="utf-8") == dashboard_text()
    model = json.loads(dashboard_text())
    assert len(model["panels"]) == len(PANELS)
    boxes = [panel["gridPos"] for panel in model["panels"]]
    cells = [
        (x, y)
        for box in boxes
        for x in range(box["x"], box["x"] + box["w"])
        for y in range(box["y"], box["y"] + box["h"])
    ]
    assert len(cells) == len(set(cells))


def test_every_query_of_dashboard_and_rules_is_answered_and_names_existing_metrics(
    tracer: PublishedWindows, tmp_path: Path
) -> None:
    queries = [filled(panel.query) for panel in PANELS]
    queries += re.findall(r"^        expr: (?!\|)(.+)$", RULES.read_text(), re.MULTILINE)
    assert len(queries) > len(PANELS)
    with endpoint(tmp_path) as port, prometheus(tmp_path, port) as server:
        tracer.publish(full_window())
        wait_until(lambda: server.value("count(rate(stalltop_calls_total[1m]))"), what="two scrapes")
        known = set(server.get("label/__name__/values"))
        # Without errors and losses, their panels are empty; so are the alerts that need time.
        wait_until(
            lambda: sum(bool(server.query(query)) for query in queries) >= len(PANELS) - 2, what="the panels"
        )
        for query in queries:
            assert set(re.findall(r"stalltop_\w+", query)) <= known, query


def test_promtool_accepts_the_rules_and_they_fire_when_they_should() -> None:
    assert promtool("check", "rules", str(RULES))[0] == 0
    code, said = promtool("test", "rules", "prometheus-rules-test.yml")
    assert code == 0, said
    assert "SUCCESS" in said


def test_labels_of_the_rules_are_those_of_the_program() -> None:
    text = RULES.read_text()
    assert set(re.findall(r"severity: (\w+)$", text, re.MULTILINE)) <= set(SEVERITIES)
