"""Writes what whole-system-test saw into docs/systems.md: ``write_systems.py SUITE FILE-OF-ITS-LINES``."""

from __future__ import annotations

import sys
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parent.parent / "docs/systems.md"

if __name__ == "__main__":
    suite, lines = sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8").strip()
    before, start, rest = DOCUMENT.read_text(encoding="utf-8").partition(f"<!-- {suite} -->\n")
    _, end, after = rest.partition(f"<!-- /{suite} -->")
    if not start or not end:
        sys.exit(f"write_systems: {DOCUMENT} has no place for {suite}")
    DOCUMENT.write_text(f"{before}{start}\n```\n{lines}\n```\n\n{end}{after}", encoding="utf-8")
