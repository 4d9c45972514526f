"""Tests that docs/security.md names a test in each line, and only tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "security.md").read_text()
LINES = [line for line in TEXT.splitlines() if line.startswith("| ")]
NAMED = re.compile(r"`(test_\w+(?:\.py)?)`")


def test_every_line_names_a_test() -> None:
    rows = [line for line in LINES if not line.startswith("| who ")]
    assert len(rows) > 15
    without = [row for row in rows if NAMED.search(row) is None]
    assert [row for row in without if "the lines below" not in row] == []


def test_the_named_tests_exist() -> None:
    files = [*(ROOT / "tests").rglob("test_*.py")]
    defined = {path.name for path in files}
    for path in files:
        defined |= set(re.findall(r"^def (test_\w+)", path.read_text(), re.M))
    assert {name for line in LINES for name in NAMED.findall(line)} - defined == set()
