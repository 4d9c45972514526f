"""Measures how long a user waits for the launcher, for the first screen, for the first data, and until the
program has ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.measuring.figures import FigureColumn
from bench.measuring.program import Program
from bench.measuring.spread import Spread, ratio
from bench.measuring.table import TextTable
from bench.monitor.terminal import OnTerminal
from stalltop.demo.build import Built
from stalltop.demo.tenants import DemoTenants

SUMMARY: Final = "seconds to the first screen, to the first data and to leave, and what the launcher adds"
_FIRST_SCREEN: Final = "stalltop"
"""Text in the header, which comes first."""
_WHOLE_SCREEN: Final = "Quit"
"""Text in the line of keys: when it is shown, keys work."""
_FIRST_DATA: Final = "cudaLaunchKernel"
"""An operation of the sample tenants: when the screen shows it, the first data has come."""
_NO_PATH: Final = {"PYTHONPATH": ""}
"""In the environment of a program, whose launcher might otherwise start another revision."""
CACHE_VARIABLE: Final = "STALLTOP_CACHE_DIR"
"""Environment variable with the folder in which stalltop keeps compiled BPF programs. Revisions without such
a cache ignore it."""


@dataclass(slots=True)
class _Waits:
    """Waiting times of one kind of start, one value per round: seconds from the start to the first screen,
    from the start to the first data, and from the key q to the end."""

    screen: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    data: list[float] = field(default_factory=list)
    leave: list[float] = field(default_factory=list)

    def cells(self, values: Sequence[float]) -> tuple[str, str]:
        """Returns two texts: ``values`` in seconds, and their ratio to the time of the whole screen in the
        same start."""
        quotient = ratio(values, self.whole)
        return Spread.of(values).text(".2f"), quotient.text(".2f") if quotient else "-"


def run(built: Built, folder: Path, *, quick: bool, program: Program | None = None) -> list[TextTable]:
    """Measures ``program`` (None: that of this checkout) and returns the table. Raises StalltopError if the
    program does not start or end."""
    program = program or Program()
    rounds = 4 if quick else 15
    added: list[float] = []
    anew, kept, demo = _Waits(), _Waits(), _Waits()
    for number in range(rounds):
        print(f"start: round {number + 1} of {rounds}", file=sys.stderr)
        direct = _seconds([program.python, "-P", "-m", program.module, "--version"], program)
        added.append(_seconds([program.launcher, "--version"], program) - direct)
        kept_files = folder / f"round-{number}"
        kept_files.mkdir(mode=0o700)
        with DemoTenants("trio", built=built):
            _start(program, kept_files, anew)
            _start(program, kept_files, kept)
        _start(program, kept_files, demo, "demo")
    table = TextTable(
        f"start: seconds, {rounds} rounds, median (middle half of the rounds), "
        "from the start of ./stalltop on a terminal of 120x40",
        (
            "what",
            FigureColumn("seconds", "s"),
            FigureColumn("/ whole screen"),
            FigureColumn("target", told_only=True),
        ),
    )
    table.add("launcher, added to the program's own start", Spread.of(added).text(".3f"), "-", "0.2 s")
    table.add("first screen", Spread.of(kept.screen).text(".2f"), "-", "0.5 s")
    table.add("whole screen", Spread.of(kept.whole).text(".2f"), "-", "-")
    table.add("first data, compiled anew", *anew.cells(anew.data), "-")
    table.add("first data, programs kept", *kept.cells(kept.data), "0.8 s")
    table.add("leave (key q to the end of the process)", Spread.of(kept.leave).text(".2f"), "-", "0.5 s")
    rows = [data - screen for data, screen in zip(demo.data, demo.screen, strict=True)]
    table.add("demo: its first rows, after the first screen", *demo.cells(rows), "3 s")
    table.notes += [
        "compiled anew: first start, no BPF programs in the cache; programs kept: the start after it",
        "first screen: its header; whole screen: all panels, and keys work (Textual is imported)",
        "/ whole screen: relative to the whole screen of the same start",
    ]
    return [table]


def _start(program: Program, kept_files: Path, waits: _Waits, command: str = "live") -> None:
    """Starts ``program`` with ``command``, waits for the first data, quits, and adds the times to ``waits``.
    ``kept_files`` is the folder for compiled programs and state, which one start leaves for the next one."""
    environment = {CACHE_VARIABLE: str(kept_files), "XDG_STATE_HOME": str(kept_files), **_NO_PATH}
    with OnTerminal([program.launcher, command], environment) as started:
        waits.screen.append(started.wait_for(_FIRST_SCREEN, drawn=True))
        waits.whole.append(started.wait_for(_WHOLE_SCREEN, drawn=True))
        waits.data.append(started.wait_for(_FIRST_DATA, drawn=True))
        time.sleep(1.0)  # so that the program is not asked to quit while it starts
        waits.leave.append(started.leave())


def _seconds(command: list[str], program: Program) -> float:
    start = time.monotonic()
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        cwd=program.root,
        env={**os.environ, **_NO_PATH},
    )
    return time.monotonic() - start
