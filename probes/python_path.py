"""Finds stalltop's packages from a process that stalltop starts in any working directory."""

from __future__ import annotations

import os
from pathlib import Path


def python_path() -> str:
    """Returns the PYTHONPATH for such a process."""
    own = str(Path(__file__).absolute().parents[2])
    return os.pathsep.join(filter(None, (own, os.environ.get("PYTHONPATH", ""))))
