"""Runs a benchmark in a PID namespace of its own: a tracer in it sees no other processes of the host, which
would come and go as they like."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from bench.measuring.program import ROOT

_UNSHARE: Final = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def inside() -> bool:
    """Returns whether this process is in a PID namespace that `run_inside` made."""
    return os.getpid() == 1


def run_inside(name: str, arguments: Sequence[str]) -> int:
    """Runs the benchmark ``name`` in a new PID namespace; returns its exit code."""
    command = [*_UNSHARE, sys.executable, "-m", "bench", name, *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode
