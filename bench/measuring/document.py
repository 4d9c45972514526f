"""Writes measured figures into a document, between two comments, which remain in it so that the next run
replaces the figures."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.measuring.program import ROOT

DOCUMENT: Final = ROOT / "docs/performance.md"
BEGIN: Final = "<!-- figures: {}, written by ./bench/run --write-docs -->"
END: Final = "<!-- end of figures: {} -->"


def put(document: Path, begin: str, end: str, text: str) -> None:
    """Replaces the text between ``begin`` and ``end`` in ``document``. Raises ValueError if they are
    missing."""
    before, began, rest = document.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not began or not ended:
        raise ValueError(f"{document} has no place {begin}")
    document.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}")


def has_place(place: str, document: Path = DOCUMENT) -> bool:
    """Returns whether the document has the comment with which the figures called ``place`` begin."""
    return BEGIN.format(place) in document.read_text()


def put_figures(place: str, text: str, document: Path = DOCUMENT) -> None:
    """Replaces the figures called ``place`` in the document by ``text``, as a code block. Raises ValueError
    if the document does not have their comments."""
    put(document, BEGIN.format(place), END.format(place), f"```\n{text.strip()}\n```")
