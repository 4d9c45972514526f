"""Writes what whole-system-test saw into docs/systems.md: ``write_systems.py SUITE FILE-OF-ITS-LINES``."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.write_keys import with_table  # noqa: E402

if __name__ == "__main__":
    suite, lines = sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8").strip()
    document = ROOT / "docs/systems.md"
    text = with_table(document.read_text(encoding="utf-8"), suite, f"```\n{lines}\n```")
    document.write_text(text, encoding="utf-8")
