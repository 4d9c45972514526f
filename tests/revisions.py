"""The files of other revisions, whose programs tests run beside the present one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def files_of(commit: str, folder: Path) -> Path:
    """Writes the files of a revision into ``folder``, and returns it. Skips the test if the checkout lacks
    the history."""
    made = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"this checkout lacks the history: {made.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=made.stdout, check=True)
    return folder
