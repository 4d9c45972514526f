"""Tests cleaning of names for a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.model.text.clean import clean

ANY_TEXT = st.one_of(
    st.text(st.characters(exclude_categories=())),  # including surrogates and unassigned characters
    st.binary(),
    st.text(" \t\n\x1b[31m\u202e\u2066\u200b\ufe0fé漢", max_size=40),
)


@given(ANY_TEXT, st.integers(1, 60))
def test_cleaned_text_is_printable_bounded_and_stable(text: str | bytes, limit: int) -> None:
    shown = clean(text, limit)
    assert len(shown) <= limit
    assert shown.isprintable()
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    assert shown == shown.strip()
    assert "  " not in shown
    assert clean(shown, limit) == shown
    shown.encode("utf-8")


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60))
def test_plain_words_stay_unchanged(text: str) -> None:
    assert clean(text, 60) == text


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("python3", "python3"),
        ("", ""),
        ("\x1b[2J\x1b]0;owned\x07sh", "[2J]0;ownedsh"),
        ("a\tb\r\nc", "a b c"),
        ("cat\u202etxt.exe", "cattxt.exe"),
        ("zero\u200bwidth", "zerowidth"),
        ("no\u00a0break", "no break"),
        ("[bold red]x[/]", "[bold red]x[/]"),
        (b"train\xff.py", "train\ufffd.py"),
        ("train\udcff.py", "train\ufffd.py"),
        ("na\udcc3\udcafve", "naïve"),
        ("half\ud800", "half?"),
        (b"\xe6\xbc\xa2\xe5\xad\x97", "漢字"),
    ],
)
def test_special_characters_are_removed_or_replaced(given_text: str | bytes, shown: str) -> None:
    assert clean(given_text) == shown


def test_cut_text_is_marked() -> None:
    assert clean("abcdef", 4) == "abc…"
    assert clean("abcd", 4) == "abcd"
    assert clean("ab" + "\x00" * 1000 + "cd", 4) == "ab…"
    assert clean("x" * 10_000_000, 4) == "xxx…"


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        clean("a", 0)
