"""Tests that memory that was freed is not held by the C library."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from stalltop.cli.allocator import return_free_memory
if sys.argv[1] == "yes":
    return_free_memory()
def own_mib():
    (line,) = (one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("RssAnon"))
    return int(line.split()[1]) >> 10
before = own_mib()
for _ in range(2):
    large = [np.ones(1 << 17) for _ in range(64)]
    small = np.ones(64)
    kept = [np.ones(64) for _ in range(1000)]
    large.clear()
print(own_mib() - before)
"""


def held_mib(told: str) -> int:
    found = subprocess.run([sys.executable, "-c", PROGRAM, told], capture_output=True, text=True, check=True)
    return int(found.stdout)


def test_large_arrays_that_were_freed_are_given_back() -> None:
    if held_mib("no") < 32:
        pytest.skip("this C library gives memory back by itself")
    assert held_mib("yes") < 8
