"""Measures what the screen costs and how soon it shows the effect of a key, by number of rows. For
comparison, does the same with btop and with a screen of Textual's stock widgets."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.measuring.cpu import cpu_ns
from bench.measuring.figures import FigureColumn, measured
from bench.measuring.table import TextTable
from bench.monitor.marks import Marks
from bench.monitor.terminal import HEIGHT, WIDTH, OnTerminal
from stalltop.demo.build import Built
from stalltop.model.errors import StalltopError

SUMMARY: Final = (
    "time from a key to its effect, CPU and bytes of a refresh, by number of rows; compared with btop and"
    " stock widgets; slow lines"
)
ROWS: Final = (10, 100, 1000)
RATES_HZ: Final = (1.0, 2.0)
SLOW_BYTES_PER_S: Final = 16_000
"""Rate of a slow line, such as a mobile phone's at the edge of its cell."""
_SETTLE_SECONDS: Final = 12.0
"""Time to wait before measuring, until the sliding window of ten seconds is full."""
_KEY_SECONDS: Final = (0.15, 0.3)
"""Range of the random pause between two keys, s. It is random so that keys fall anywhere between two
refreshes."""
_SLOW_KEY_SECONDS: Final = (1.5, 3.0)
"""Range of the random pause between two keys on a slow line. It is longer there, because the effect of a key
must be painted before the next key."""
BTOP_SHOWS: Final = "proc"
"""A text that btop has on its screen."""
_OTHERS: Final = ("stock", "btop")
_DOWN, _UP = b"\x1b[B", b"\x1b[A"


@dataclass(frozen=True, slots=True)
class ScreenProgram:
    """A full-screen program to measure."""

    name: str
    command: Sequence[str]
    ready: str
    """Text that the program writes as soon as it shows data."""
    column: int
    """A column, from 0, in which the row under the cursor has another background than other rows."""
    rows: int | None = None
    """Number of rows that the program shows; None: a row for each process of the machine."""
    hz: float = 1.0
    prepare: bytes = b""
    """Keys that are typed once before the measurement."""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figures:
    """Measurements of one program."""

    cpu_percent: float
    bytes_per_refresh: float
    keys_ms: Sequence[float]
    """For each key: time until the terminal receives the first byte of the output that shows the key's
    effect, ms."""


def run(built: Built, folder: Path, *, quick: bool, alone: bool = False) -> list[TextTable]:
    """Measures and returns the tables; with ``alone``, only of stalltop, not of programs for comparison.
    Raises StalltopError if a program fails."""
    seconds = 8.0 if quick else 30.0
    normal = TextTable(
        f"screen: {WIDTH}x{HEIGHT}, every figure changes at each refresh, {seconds:.0f} s each",
        (
            *("program", "rows", "Hz"),
            FigureColumn("CPU %", "%"),
            FigureColumn("bytes/refresh", "B"),
            FigureColumn("KB/s", "KB/s"),
            FigureColumn("key ms, median", "ms"),
            FigureColumn("p99", "ms"),
            FigureColumn("keys", "", ""),
        ),
        others=_OTHERS,
    )
    slow = TextTable(
        f"screen, a line of {SLOW_BYTES_PER_S // 1000} KB/s: key to paint, {4 * seconds:.0f} s each",
        (
            *("program", "rows", "Hz"),
            FigureColumn("KB/s", "KB/s"),
            FigureColumn("key ms, median", "ms"),
            FigureColumn("longest", "ms"),
            FigureColumn("keys", "", ""),
        ),
        others=_OTHERS,
    )
    for program in _programs(folder):
        if alone and program.name in _OTHERS:
            continue
        print(f"screen: {_described(program)}", file=sys.stderr)
        found = _measured(program, seconds)
        normal.add(
            program.name,
            _rows(program),
            f"{program.hz:.0f}",
            measured(found.cpu_percent, ".2f"),
            measured(found.bytes_per_refresh, ",.0f"),
            measured(found.bytes_per_refresh * program.hz / 1e3, ".1f"),
            *_latencies(found.keys_ms, 0.99),
        )
    for program in _on_slow_line(folder):
        if alone and program.name in _OTHERS:
            continue
        print(f"screen: {_described(program)}, a slow line", file=sys.stderr)
        found = _measured(program, 4 * seconds, slow=True)
        slow.add(
            program.name,
            _rows(program),
            f"{program.hz:.0f}",
            measured(found.bytes_per_refresh * program.hz / 1e3, ".1f"),
            *_latencies(found.keys_ms, 1.0),
        )
    normal.notes += [
        "CPU %: of one core, by the program's process, without keys; btop also reads /proc",
        "key: from Up or Down on the terminal to the first byte that shows the cursor in its new place",
        "stalltop, stock: the same prepared windows; nothing is traced",
        "stock: the same screen made of Textual's DataTable and Static",
    ]
    slow.notes += ["key: until the byte that shows the cursor in its new place has passed the slow line"]
    if shutil.which("btop") is None:
        normal.notes.append("btop is not installed here")
    return [normal, slow]


def _programs(folder: Path) -> Iterator[ScreenProgram]:
    for rows in ROWS:
        for hz in RATES_HZ:
            yield _ours(rows, hz)
            yield _stock(rows, hz)
    yield from (program for hz in RATES_HZ for program in _btop(folder, hz))


def _on_slow_line(folder: Path) -> Iterator[ScreenProgram]:
    for rows, hz in ((100, 1.0), (1000, 2.0)):
        yield _ours(rows, hz)
        yield _stock(rows, hz)
    yield from _btop(folder, 1.0)


def _shown(kind: str, rows: int, hz: float) -> Sequence[str]:
    return (sys.executable, "-P", "-m", "bench.monitor.shown", kind, str(rows), str(hz))


def _ours(rows: int, hz: float) -> ScreenProgram:
    # The key o shows the table by operation, which has all the rows.
    return ScreenProgram("stalltop", _shown("ours", rows, hz), "LIVE", 3, rows, hz, prepare=b"o")


def _stock(rows: int, hz: float) -> ScreenProgram:
    return ScreenProgram("stock", _shown("stock", rows, hz), "LIVE", 3, rows, hz)


def _btop(folder: Path, hz: float) -> Iterator[ScreenProgram]:
    """Yields btop with its default settings, except that it refreshes at ``hz``; nothing if btop is not
    installed."""
    if shutil.which("btop") is None:
        return
    yield ScreenProgram(
        "btop", ("btop",), BTOP_SHOWS, 100, None, hz, prepare=_DOWN, environment=btop_settings(folder, hz)
    )


def btop_settings(folder: Path, hz: float) -> dict[str, str]:
    """Returns the environment in which btop has its default settings, except that it refreshes at ``hz``.
    Its file of settings is written below ``folder``."""
    place = folder / f"btop-{hz:.0f}"
    (place / "btop").mkdir(parents=True, exist_ok=True)
    (place / "btop/btop.conf").write_text(f"update_ms = {1000 / hz:.0f}\n")
    return {"XDG_CONFIG_HOME": str(place)}


def _described(program: ScreenProgram) -> str:
    return f"{program.name}, {_rows(program)} rows, {program.hz:.0f} Hz"


def _rows(program: ScreenProgram) -> str:
    if program.rows is not None:
        return str(program.rows)
    return str(sum(name.isdigit() for name in os.listdir("/proc")))


def _measured(program: ScreenProgram, seconds: float, *, slow: bool = False) -> Figures:
    limit = SLOW_BYTES_PER_S if slow else None
    with OnTerminal(program.command, program.environment, bytes_per_s=limit) as terminal:
        terminal.wait_for(program.ready)
        time.sleep(1.0)
        if program.prepare:
            terminal.press(program.prepare)
        time.sleep(_SETTLE_SECONDS)
        with _alive(program):
            cpu, written, began = cpu_ns(terminal.pid), terminal.written_bytes, time.monotonic_ns()
            time.sleep(seconds)
            took_ns = time.monotonic_ns() - began
            cpu_percent = 100.0 * (cpu_ns(terminal.pid) - cpu) / took_ns
        per_refresh = (terminal.written_bytes - written) / (took_ns / 1e9) / program.hz
        keys_ms = _keys_ms(terminal, program, seconds, _SLOW_KEY_SECONDS if slow else _KEY_SECONDS)
        terminal.leave()
    return Figures(cpu_percent, per_refresh, keys_ms)


@contextlib.contextmanager
def _alive(program: ScreenProgram) -> Iterator[None]:
    try:
        yield
    except OSError:
        raise StalltopError(f"{program.name} ended during the measurement") from None


def _keys_ms(
    terminal: OnTerminal, program: ScreenProgram, seconds: float, between: tuple[float, float]
) -> Sequence[float]:
    """Presses Down and Up in turns; returns for each key the time until its effect was shown, ms."""
    chunks = terminal.record()
    pause = random.Random(1)
    # The first two keys are not measured: `Marks` learns the backgrounds of the two rows from them.
    for key in (_DOWN, _UP):
        terminal.press(key)
        time.sleep(between[1])
    pressed: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pressed.append(terminal.press(_UP if len(pressed) % 2 else _DOWN))
        time.sleep(pause.uniform(*between))
    pressed.append(time.monotonic())
    return latencies_ms(chunks, pressed, program.column)


def latencies_ms(
    chunks: Sequence[tuple[float, bytes]], pressed: Sequence[float], column: int
) -> Sequence[float]:
    """Returns, for each time in ``pressed`` except the last, how many ms later the key's effect was painted.

    ``chunks`` are pieces of output with their times. The first chunk that changes the background of a cell in
    ``column`` paints the effect. If no chunk before the next key press does so, the value is the time until
    that key press.
    """
    marks = Marks(column)
    following = iter(chunks)
    chunk = next(following, None)
    found = []
    for at, after in itertools.pairwise(pressed):
        while chunk is not None and chunk[0] < at:
            marks.feed(chunk[1])
            chunk = next(following, None)
        before, shown = marks.lines, after
        while chunk is not None and chunk[0] < after:
            marks.feed(chunk[1])
            if shown == after and marks.lines != before:
                shown = chunk[0]
            chunk = next(following, None)
        found.append(1e3 * (shown - at))
    return found


def _latencies(keys_ms: Sequence[float], high: float) -> tuple[str, str, str]:
    ordered = sorted(keys_ms)
    if not ordered:
        return "-", "-", "0"
    highest = ordered[min(math.ceil(high * len(ordered)), len(ordered)) - 1]
    return (
        measured(statistics.median(ordered), ".0f"),
        measured(highest, ".0f"),
        measured(len(ordered), "d"),
    )
