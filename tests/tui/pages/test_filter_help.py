"""Tests that the help page and the documents describe the filters that exist."""

from __future__ import annotations

from stalltop.model.rows.filter import KEYS, SHORT_KEYS, parse
from stalltop.tui.pages.filter_help import TERMS, markdown
from stalltop.tui.pages.help import help_page


def test_every_documented_term_is_a_valid_filter() -> None:
    lines = ["".join(part for part, _ in line.parts) for line in help_page()]
    for term, meaning in TERMS:
        found = parse(term)
        assert found.error == ""
        assert found
        assert any(line.startswith(f"  {term} ") and line.endswith(meaning) for line in lines)


def test_the_documents_list_every_key() -> None:
    text = markdown()
    assert all(f"`{key}:`" in text for key in (*KEYS, *SHORT_KEYS))
    assert all(f"| `{term}` | " in text for term, _ in TERMS)
