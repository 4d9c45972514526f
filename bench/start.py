"""How long a person waits: for the launcher, for the first screen, for the first data, for the end."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from bench.spread import Spread
from bench.table import Table
from bench.terminal import OnTerminal
from demo.build import Built
from demo.tenants import DemoTenants

SUMMARY: Final = "seconds to the first screen, to the first data and to leave, and what the launcher adds"
_LAUNCHER: Final = Path(__file__).resolve().parent.parent / "stalltop"
_FIRST_SCREEN: Final = "STARTING"
"""What the header says before there is a window."""
_FIRST_DATA: Final = "cudaLaunchKernel"
"""An operation of the sample tenants."""


def run(built: Built, folder: Path, *, quick: bool) -> list[Table]:
    """Measure and give the table. Raises Told."""
    rounds = 3 if quick else 15
    table = Table(
        f"start: seconds, {rounds} rounds, median (middle half of the rounds), "
        "from the start of ./stalltop on a terminal of 120x40",
        ("what", "seconds", "target"),
    )
    direct, launched = [], []
    for number in range(rounds):
        print(f"start: launcher, round {number + 1} of {rounds}", file=sys.stderr)
        direct.append(_seconds([sys.executable, "-P", "-m", "tui", "--version"]))
        launched.append(_seconds([str(_LAUNCHER), "--version"]))
    added = [whole - part for whole, part in zip(launched, direct, strict=True)]
    screens, data, left = [], [], []
    with DemoTenants("trio", built=built):
        for number in range(rounds):
            print(f"start: screen, round {number + 1} of {rounds}", file=sys.stderr)
            with OnTerminal([str(_LAUNCHER), "live"]) as program:
                screens.append(program.wait_for(_FIRST_SCREEN))
                data.append(program.wait_for(_FIRST_DATA))
                time.sleep(1.0)  # leave in the middle of things
                left.append(program.leave())
    table.add("launcher, added to the program's own start", Spread.of(added).text(".3f"), "0.2")
    table.add("first screen", Spread.of(screens).text(".2f"), "0.7")
    table.add("first data", Spread.of(data).text(".2f"), "2")
    table.add("leave (key q to the end of the process)", Spread.of(left).text(".2f"), "1")
    return [table]


def _seconds(command: list[str]) -> float:
    start = time.monotonic()
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, cwd=_LAUNCHER.parent)
    return time.monotonic() - start
