"""Writes docs/commands.md and the manual page docs/stalltop.1: ``python scripts/write_manual.py``."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from stalltop.cli.main import parser, program_version  # noqa: E402
from stalltop.cli.manual.described import described  # noqa: E402
from stalltop.cli.manual.pages import manual, markdown  # noqa: E402


def documents() -> dict[Path, str]:
    """Returns the text of each document that this script writes."""
    commands = described(parser())
    return {
        ROOT / "docs" / "commands.md": markdown(commands),
        ROOT / "docs" / "stalltop.1": manual(commands, program_version()),
    }


if __name__ == "__main__":
    for path, text in documents().items():
        path.write_text(text, encoding="utf-8")
