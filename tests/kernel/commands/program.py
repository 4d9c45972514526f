"""Runs the program of this or another revision as a process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@contextlib.contextmanager
def started(
    folder: Path, *arguments: str, within: tuple[str, ...] = (), root: Path = ROOT
) -> Iterator[subprocess.Popen[str]]:
    """Runs a command of the stalltop whose files are in ``root`` until the block ends. ``within`` is a
    command that executes it."""
    with subprocess.Popen(
        [*within, sys.executable, "-P", "-m", "stalltop", *arguments],
        cwd=root,
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(root / "src")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
