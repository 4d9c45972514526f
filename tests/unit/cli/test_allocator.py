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

EVERY_SECOND = """
import resource
import numpy as np
from stalltop.cli.allocator import return_free_memory
return_free_memory()
def work():
    for _ in range(100):
        arrays = [np.ones(1 << 16) for _ in range(4)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def held_mib(told: str) -> int:
    found = subprocess.run([sys.executable, "-c", PROGRAM, told], capture_output=True, text=True, check=True)
    return int(found.stdout)


def test_large_arrays_that_were_freed_are_given_back() -> None:
    if held_mib("no") < 32:
        pytest.skip("this C library gives memory back by itself")
    assert held_mib("yes") < 8


def test_arrays_of_half_a_mib_need_no_fresh_pages_each_time() -> None:
    found = subprocess.run([sys.executable, "-c", EVERY_SECOND], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 1_000  # Otherwise it is one for each of 51,200 pages.
