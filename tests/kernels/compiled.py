"""The programs as compilers made them, in folders that the guests' cache is copied from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Compiled:
    """One compiler's."""

    name: str
    folder: Path
    in_ci: bool
