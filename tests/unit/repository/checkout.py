"""Finds the folders of the checkout and parses its modules."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NOT_INSTALLED = {"bench", "scripts", "tests"}


@cache
def parsed(path: Path) -> ast.Module:
    """Returns the module at ``path``."""
    return ast.parse(path.read_text(encoding="utf-8"))


def folders() -> set[str]:
    """Returns the folders at the root with Python code of the program."""
    found = {file.parent.name for file in ROOT.glob("[a-z]*/__init__.py")}
    return found - NOT_INSTALLED
