"""Tests how lines of a page are wrapped."""

from __future__ import annotations

import pytest

from stalltop.widgets.page import PageLine, wrapped


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("one two three", ["one two", "  three"]),
        ("abcdefghijklmno", ["abcdefghijkl", "  mno"]),
        # A blank after a word that fills its rows makes no row of its own.
        ("abcdefghijklmnopqrstuv w", ["abcdefghijkl", "  mnopqrstuv", "  w"]),
    ],
)
def test_no_row_is_blank(text: str, rows: list[str]) -> None:
    found = wrapped(PageLine(((text, "text"),), indent=2), 12)
    assert ["".join(part for part, _ in row).rstrip() for row in found] == rows
