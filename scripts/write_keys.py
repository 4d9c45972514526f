"""Writes the table of keys into README.md: ``python scripts/write_keys.py``."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tui.keys import markdown  # noqa: E402

START, END = "<!-- keys -->\n", "<!-- /keys -->"


def with_keys(text: str) -> str:
    """``text`` with the table of keys between its two marks. Raises ValueError where they are not there."""
    before, found, rest = text.partition(START)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise ValueError(f"no {START.strip()} … {END} in it")
    return f"{before}{START}\n{markdown()}\n\n{END}{after}"


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(with_keys(readme.read_text(encoding="utf-8")), encoding="utf-8")
