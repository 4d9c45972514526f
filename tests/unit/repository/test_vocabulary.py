"""Tests that texts for users call each thing by one word, the one in docs/glossary.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from stalltop.diagnosis.causes import CAUSES
from stalltop.formats.registry import FORMATS
from stalltop.tui.keys.actions import ACTIONS
from stalltop.tui.keys.page_keys import PAGES
from tests.unit.repository.checkout import parsed

_ROOT: Final = Path(__file__).resolve().parents[3]
_ROOMS: Final = ("cli", "diagnosis", "formats", "tui", "widgets")

_SEARCHED: Final = _ROOT / "tui/keys/words.py"
"""File with words that users may type into the palette. These are never shown, so old words are allowed."""

_OLD: Final = {
    r"\bchains?\b": "problem",
    r"\bwarnings?\b": "problem, remark or coverage",
    r"\b(?<!major )(?<!page )(?<!minor )faults?\b": "problem",
    r"what (is|was) wrong|found wrong|is wrong\b|worth knowing": "problem",
    r"\bheld (down|by heat)\b": "throttled",
    r"charged to nobody|nobody known": "unattributed",
    r"\d?%? sure$": "confidence",
    r"normal (is )?not learned|\bnormally\b|its normal\b": "baseline",
    r"\bin turns\b|\bby MPS\b": "time-sliced, via MPS",
    r"bound by the device": "GPU-bound",
    r"\bpassed over\b|cut short": "not captured, partial",
    r"sent again\b": "retransmitted",
    r"for each of its requests": "per request",
    r"\btime line\b": "timeline",
}
"""Old words, as regular expressions, each with the term of the glossary that replaces it."""
_ALLOWED: Final = (
    "'faults > 0'",  # the figure of --fail-if
    "certificate chain for TLS",
    "no tenant's fault",
    "faults > 0",
)
"""Texts in which an old word is a name or has another meaning."""


def _documentation(tree: ast.Module) -> set[int]:
    """Returns the ids of the syntax nodes of all docstrings, including those of attributes."""
    return {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in node.body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }


def visible(path: Path) -> Iterator[tuple[int, str]]:
    """Yields line and text of each string of a module that may be shown: not docstrings, and not names, which
    have no blank. A formatted string has ``{}`` for each value."""
    tree = parsed(path)
    left_out = _documentation(tree)
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            left_out |= {id(part) for part in ast.walk(node)}
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif id(node) not in left_out and isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        if " " in text.strip():
            yield node.lineno, text  # type: ignore[attr-defined]


def old_words(text: str) -> list[str]:
    """Returns a message for each old word in ``text``."""
    for allowed in _ALLOWED:
        text = text.replace(allowed, "")
    return [f"{text!r}: use {term}" for word, term in _OLD.items() if re.search(word, text, re.IGNORECASE)]


@pytest.mark.parametrize("room", _ROOMS)
def test_texts_use_the_words_of_the_glossary(room: str) -> None:
    told = [
        f"{path.relative_to(_ROOT)}:{line}: {message}"
        for path in sorted((_ROOT / room).rglob("*.py"))
        if path != _SEARCHED
        for line, text in visible(path)
        for message in old_words(text)
    ]
    assert not told, "\n".join(told)


def test_labels_use_the_words_of_the_glossary() -> None:
    texts = [text for action in ACTIONS for text in (action.label, action.help)]
    texts += [text for page in PAGES for text in (page.heading, *(help_ for _, help_ in page.lines()))]
    texts += [text for cause in CAUSES.values() for text in (cause.title, cause.about)]
    texts += [text for one in FORMATS for text in (one.label, one.saved, one.exported)]
    assert not [message for text in texts for message in old_words(text)]


def test_titles_of_causes_are_short_phrases() -> None:
    for cause in CAUSES.values():
        # The list of problems has 30 cells for a title at 80 columns.
        assert len(cause.title) <= 30 or cause.id == "tracer"
        assert cause.title[0].isupper() or cause.title.startswith("stalltop ")
        assert not cause.title.endswith(".")


@pytest.mark.parametrize(
    "document", ["README.md", "docs/keys.md", "docs/causes.md", "docs/config.md", "docs/saving.md"]
)
def test_pages_for_users_use_the_words_of_the_glossary(document: str) -> None:
    text = (_ROOT / document).read_text(encoding="utf-8")
    told = [f"{document}: {phrase}" for phrase in ("no warnings", "charged to nobody", "held down", "% sure")]
    assert not [line for line in told if line.partition(": ")[2] in text]
