"""Finds the Python environment that `scripts/fetch-real-programs` makes, with the packages that the trial
programs need."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from stalltop.model.errors import StalltopError

PROGRAMS: Final = Path(__file__).resolve().parent / "programs"
FETCH: Final = "scripts/fetch-real-programs"


def python() -> Path:
    """Returns the interpreter of the environment. Raises StalltopError if the environment was not made."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(os.environ.get("STALLTOP_REAL") or Path(home) / "stalltop" / "real")
    if not (folder / "complete").exists():
        raise StalltopError(f"the packages that the programs need are not in {folder}", FETCH)
    return folder / "bin" / "python"
