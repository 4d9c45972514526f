"""Tests the limit of stacks a second: calls above it are captured without."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.kernel.stacks.tracing import compile_library, tracing

LIMIT = 5
CALLS = 400
PROGRAM = f"""
import ctypes, sys
worked = ctypes.CDLL(sys.argv[1]).worked
for number in range({CALLS}):
    worked(5_000_000)
"""


def test_no_more_stacks_are_read_a_second_than_allowed(tmp_path: Path) -> None:
    library = compile_library(tmp_path)
    with tracing(library) as kernel:
        kernel.stacks.limit(LIMIT)
        begun, captured = time.monotonic(), 0
        program = subprocess.Popen([sys.executable, "-I", "-c", PROGRAM, library])
        while program.poll() is None:
            kernel.read()  # It lets all calls be captured.
            captured += len(kernel.kept_calls(time.monotonic_ns()))
            time.sleep(0.1)
        seconds = time.monotonic() - begun
        stacks = len(kernel.stacks.read())
    assert program.returncode == 0
    assert LIMIT <= stacks <= LIMIT * (seconds + 1)
    assert captured > 4 * stacks
