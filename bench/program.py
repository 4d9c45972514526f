"""The program that is measured: this checkout's, or that of another revision."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Program:
    """A checkout with its Python environment."""

    root: Path = ROOT
    python: str = sys.executable

    @property
    def module(self) -> str:
        """What its Python runs: earlier revisions have no package that is named as the program."""
        return "stalltop" if (self.root / "src").is_dir() else "tui"

    @property
    def launcher(self) -> str:
        """What a person starts."""
        return str(self.root / "stalltop")
