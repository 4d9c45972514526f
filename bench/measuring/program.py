"""Names the program that is measured: stalltop of this checkout, or of another revision."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Program:
    """A checkout with its Python environment."""

    root: Path = ROOT
    python: str = sys.executable

    @property
    def module(self) -> str:
        """Returns the module that ``python -m`` runs to start the program: ``tui`` in old revisions, which
        have no folder ``src`` and no package ``stalltop``."""
        return "stalltop" if (self.root / "src").is_dir() else "tui"

    @property
    def launcher(self) -> str:
        """Returns the path of the script that users start."""
        return str(self.root / "stalltop")
