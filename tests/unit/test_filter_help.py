"""What the help and the documents say of filters is what filters do."""

from __future__ import annotations

from stalltop.model.rows.filter import KEYS, SHORT_KEYS, parse
from stalltop.tui.pages.filter_help import TERMS, markdown
from stalltop.tui.pages.texts import help_page


def test_every_term_that_is_shown_is_a_filter_and_in_the_help() -> None:
    lines = ["".join(part for part, _ in line.parts) for line in help_page()]
    for term, meaning in TERMS:
        found = parse(term)
        assert found.error == ""
        assert found
        assert any(line.startswith(f"  {term} ") and line.endswith(meaning) for line in lines)


def test_the_documents_name_every_key_of_a_filter() -> None:
    text = markdown()
    assert all(f"`{key}:`" in text for key in (*KEYS, *SHORT_KEYS))
    assert all(f"| `{term}` | " in text for term, _ in TERMS)
