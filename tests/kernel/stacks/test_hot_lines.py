"""Tests that the first line of the worst problem of a loop is the one at which it loses its time.

STALLTOP_HOT_LINES is the number of loops of each kind, 1 by default.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.diagnosis.diagnosed import Diagnosed
from stalltop.diagnosis.engine import Diagnosis
from stalltop.model.chain import Chain, Link, worst_first
from stalltop.model.window import Window
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions
from tests.kernel.harness import Workplace, wait_until

LOOP = Path(__file__).with_name("hot_lines.py")
TIMES = int(os.environ.get("STALLTOP_HOT_LINES", "1"))
LEAST_SECONDS = 3.0
"""Age of a problem, s, from which its lines are compared: before that few samples are known."""
MODES = ("cpu", "gil", "disk")


def line_of(marker: str) -> str:
    """Return the place of the line that ends with a comment, such as ``hot_lines.py:21``."""
    lines = LOOP.read_text().splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if line.endswith(f"# {marker}"))
    return f"{LOOP.name}:{number}"


@contextlib.contextmanager
def looping(workplace: Workplace, mode: str) -> Iterator[int]:
    """Run a loop; yield its PID."""
    library = workplace.built.folder / "libcuda.so.1"
    process = subprocess.Popen([sys.executable, "-I", LOOP, library, workplace.folder / "data", mode])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", range(TIMES))
def test_the_first_line_of_a_problem_is_the_hot_one(workplace: Workplace, mode: str, number: int) -> None:
    with looping(workplace, mode) as pid:
        source = Diagnosed(Monitor(MonitorOptions(budget=None)), Diagnosis(own_pid=os.getpid()))
        try:

            def problem() -> Chain | None:
                window = source.read()
                found = [chain for chain in window.chains if chain.pid == pid and is_old(chain, window)]
                worst = min(found, key=worst_first, default=None)
                return worst if worst is not None and is_told(worst) else None

            found = wait_until(problem, step=1.0, what=f"a problem of a loop whose hot line is {mode}")
        finally:
            source.close()
    assert found is not None
    lines = lines_in(found)
    assert lines[0].text.startswith(f"in {line_of(f'hot: {mode}')} "), found


def lines_in(chain: Chain) -> list[Link]:
    """Return the steps of a problem that are lines of its own process; none while names are not read yet."""
    return [link for link in chain.links if link.role == "line" and link.pid == chain.pid]


def is_told(chain: Chain) -> bool:
    """Return whether a problem has its lines; one about the GIL also that of its holder, who is sampled less
    often than the threads that wait."""
    lines = lines_in(chain)
    holder = f"in {line_of('holds the GIL')} "
    return bool(lines) and (chain.cause != "gil" or any(line.text.startswith(holder) for line in lines[1:]))


def is_old(chain: Chain, window: Window) -> bool:
    return chain.open and window.end - chain.since >= LEAST_SECONDS
