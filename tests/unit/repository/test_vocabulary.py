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
_ROOMS: Final = (
    *("cli", "demo", "diagnosis", "fleet", "formats"),
    *("model", "probes", "serving", "tui", "widgets"),
)

_SEARCHED: Final = _ROOT / "tui/keys/words.py"
"""File with words that users may type into the palette. These are never shown, so old words are allowed."""

_PHRASES: Final = {
    r"what (is|was) wrong|found wrong|worth knowing|no warnings\b": "problem",
    r"nothing hangs|what is listed is over|(is|or) no fault\b": "problem",
    r"speaks? of this row": "No problem involves this row",
    r"\bheld (down|by heat)\b": "throttled",
    r"charged to (nobody|no process)|nobody known": "unattributed",
    r"\d ?% sure\b|\bsure \d+ ?%": "90 % certain",
    r"normal (is )?not learned|\bnormally\b|its normal\b": "baseline",
    r"bound by the device": "limited by the GPU",
    r"\bcomes? late\b": "arrives late",
    r"waits for the device after every (step|launch)": "synchronizes after every launch",
    r"\bshort of CPU\b": "starved of CPU",
    r"cut short": "partial",
    r"sent again\b": "retransmitted",
    r"for each of its requests": "per request",
    r"\bloads? \S+ for \S+ ?% of the time": "keeps 1.4 requests in flight",
    r"\btime line\b": "timeline",
    r"\bhold the picture": "freeze",
    r"\blet the past pass": "play back",
    r"\bin the row, in place|\bturn the order round": "expand or collapse, reverse",
    r"\bof the calls took no longer": "percentile",
}
"""Old phrases, as regular expressions, each with the words that replace it. Neither the program nor its
documents contain them."""

_OLD: Final = _PHRASES | {
    r"\bchains?\b": "problem",
    r"\bwarnings?\b": "problem, remark or coverage",
    r"\b(?<!major )(?<!page )(?<!minor )faults?\b": "problem",
    r"\bis wrong\b": "problem",
    r"\d?%? sure$": "90 % certain",
    r"\bin turns\b|\bby MPS\b": "time-sliced, via MPS",
    r"\bpassed over\b": "not captured",
}
"""Old words in texts of the program. In documents some of them have other meanings."""
_REFERENCES: Final = ("file-format.md", "json.md", "sql.md")
"""Documents about formats, whose names keep old words."""
_DOCUMENTS: Final = (
    _ROOT / "README.md",
    *(path for path in sorted(_ROOT.glob("docs/*.md")) if path.name not in _REFERENCES),
)
_ALLOWED: Final = (
    "'faults > 0'",  # the figure of --fail-if
    "certificate chain for TLS",
    "no tenant's fault",
    "faults > 0",
    "[[fault]]",  # a table of a scenario file
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


@pytest.mark.parametrize(
    "text",
    [
        "trainer waits for the device after every launch or two",
        "backup (pid 7) loads vda for 142% of the time",
        "{} loads {} for {:.0f}% of the time",
        "no chain speaks of this row",
        "data loading is short of CPU",
        "one rank comes late",
        "charged to nobody",
        "no warnings: nothing is slow without a reason",
        "Hold the picture, go on counting; again: live",
        "Let the past pass; again: 10x",
        "What is in the row, in place, or not",
        "Turn the order round",
        "half, 95 % and 99 % of the calls took no longer",
        "sure 90%",
    ],
)
def test_old_wordings_are_found(text: str) -> None:
    assert old_words(text)


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


@pytest.mark.parametrize("document", _DOCUMENTS, ids=lambda path: path.name)
def test_documents_use_the_words_of_the_glossary(document: Path) -> None:
    text = " ".join(document.read_text(encoding="utf-8").split())
    told = [
        f"{match[0]!r}: use {term}"
        for phrase, term in _PHRASES.items()
        for match in re.finditer(rf".{{0,30}}(?:{phrase})", text, re.IGNORECASE)
    ]
    assert not told, "\n".join(told)


def test_the_glossary_has_the_title_of_gpu_bound() -> None:
    text = (_ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    assert CAUSES["gpu_bound"].title in text
