"""Finds the folders of the checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NOT_INSTALLED = {"bench", "scripts", "tests"}


def folders() -> set[str]:
    """Returns the folders at the root with Python code of the program."""
    found = {file.parent.name for file in ROOT.glob("[a-z]*/__init__.py")}
    return found - NOT_INSTALLED
