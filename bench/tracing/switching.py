"""Measures what tracing costs programs that are not traced. Two processes send each other a byte and wait for
the answer, so that threads switch as often as possible.

They run without and with a monitor on a host where nothing calls CUDA. Then they run beside a process that
makes CUDA calls: without the monitor, with empty programs at the tracepoints of the scheduler that it needs,
and with a monitor that traces that process.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.measuring.figures import FigureColumn
from bench.measuring.program import ROOT
from bench.measuring.spread import Spread, ratio
from bench.measuring.table import TextTable
from stalltop.demo.build import Built, compiler
from stalltop.demo.caller import Caller
from stalltop.model.errors import StalltopError
from stalltop.probes.programs.bpf_calls import attach_raw_tracepoint
from stalltop.probes.programs.compiled import RAW_TRACEPOINT
from stalltop.probes.programs.loading import load_prepared
from stalltop.probes.programs.recipes import Recipe

SUMMARY: Final = "how much tracing slows an untraced load that only switches threads"
_BURST_NS: Final = 400_000_000
_WARM_UP_ROUNDS: Final = 20_000
_READY_SECONDS: Final = 60.0
_OFF, _IDLE = "off", "nothing traced"
_BESIDE, _EMPTY, _TRACING = "off, beside a caller", "empty programs, beside it", "the caller traced"
_BASES: Final = {_OFF: "", _IDLE: _OFF, _BESIDE: "", _EMPTY: _BESIDE, _TRACING: _BESIDE}
"""The states of the host, each with the one to which it is compared."""
_STATES: Final = tuple(_BASES)
_TRACEPOINTS: Final = {"thread_switches": "sched_switch", "thread_wakes": "sched_waking"}


def run(built: Built, folder: Path, *, quick: bool) -> list[TextTable]:
    """Measures and returns the table. Raises StalltopError."""
    rounds = 4 if quick else 15
    program = folder / "pingpong"
    subprocess.run(
        [*compiler(), "-O2", "-o", program, Path(__file__).parent / "native/pingpong.c"],
        check=True,
        timeout=_READY_SECONDS,
    )
    cpus = sorted(os.sched_getaffinity(0))
    places = {"one CPU": (cpus[0], cpus[0]), "two CPUs": (cpus[0], cpus[-1])}
    if len(cpus) == 1:
        del places["two CPUs"]
    turns = {
        place: int(_BURST_NS * _WARM_UP_ROUNDS / _burst(program, _WARM_UP_ROUNDS, pair)[0])
        for place, pair in places.items()
    }
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    order = random.Random(1)
    for number in range(rounds):
        print(f"switching: round {number + 1} of {rounds}", file=sys.stderr)
        for state in order.sample(_STATES, len(_STATES)):
            with _host_in(state, built):
                for place, pair in places.items():
                    wall, cpu = _burst(program, turns[place], pair)
                    found.setdefault((place, state), []).append((wall / turns[place], cpu / turns[place]))
    return [_table(found, list(places), rounds)]


def _table(
    found: dict[tuple[str, str], list[tuple[float, float]]], places: list[str], rounds: int
) -> TextTable:
    table = TextTable(
        f"switching: a byte to and fro between two untraced processes, {rounds} interleaved rounds, "
        "median (middle half of the rounds)",
        (
            "on",
            "stalltop",
            FigureColumn("ns", "ns"),
            FigureColumn("/ off"),
            FigureColumn("ns of CPU", "ns"),
            FigureColumn("/ off"),
            FigureColumn("/ empty programs"),
        ),
        others=(_OFF, _BESIDE, _EMPTY),
    )
    for place in places:
        for state, base in _BASES.items():
            cells: list[str] = []
            for column in (0, 1):
                values = [figures[column] for figures in found[place, state]]
                cells.append(Spread.of(values).text())
                quotient = ratio(values, [figures[column] for figures in found[place, base or state]])
                cells.append(quotient.text(".3f") if quotient and base else "-")
            least = ratio([cpu for _, cpu in found[place, state]], [cpu for _, cpu in found[place, _EMPTY]])
            cells.append(least.text(".3f") if least and state == _TRACING else "-")
            table.add(place if state == _OFF else "", state, *cells)
    table.notes += [
        "",
        "ns: wall time of one round trip: two wake-ups and, on one CPU, two switches; ns of CPU:",
        "CPU time of both processes for it, which other load on the machine changes less",
        "empty programs: at the tracepoints sched_switch and sched_waking, which following threads takes",
    ]
    return table


def _burst(program: Path, rounds: int, pair: tuple[int, int]) -> tuple[int, int]:
    """Returns the wall time and the CPU time of ``rounds`` round trips, ns."""
    done = subprocess.run(
        [program, str(rounds), *map(str, pair)], capture_output=True, text=True, timeout=_READY_SECONDS
    )
    if done.returncode:
        raise StalltopError("the ping-pong program failed", f"exit status {done.returncode}")
    wall, cpu = map(int, done.stdout.split())
    return wall, cpu


@contextlib.contextmanager
def _host_in(state: str, built: Built) -> Iterator[None]:
    """Puts the monitor into ``state`` for the duration of the block."""
    with contextlib.ExitStack() as stack:
        if state in (_BESIDE, _EMPTY, _TRACING):
            caller = stack.enter_context(Caller(built))
            caller.start("cudaLaunchKernel ~10000")
        if state == _EMPTY:
            for fd in _empty_programs():
                stack.callback(os.close, fd)
        elif state in (_IDLE, _TRACING):
            stack.enter_context(_monitor(wait_for_rows=state == _TRACING))
        yield


def _empty_programs() -> list[int]:
    """Attaches empty programs to the tracepoints; returns the file descriptors that keep them there."""
    text = (Path(__file__).parent / "native/empty_scheduler.c").read_text()
    programs, *_ = load_prepared(Recipe(text, dict.fromkeys(_TRACEPOINTS, RAW_TRACEPOINT)), {})
    links = [attach_raw_tracepoint(fd, _TRACEPOINTS[name]) for name, fd in programs.items()]
    return [*programs.values(), *links]


@contextlib.contextmanager
def _monitor(*, wait_for_rows: bool) -> Iterator[None]:
    """Runs a monitor in a process of its own during the block, which begins after the monitor's first window;
    with ``wait_for_rows``, after the first window that has rows."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.tracing.headless"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            poll = select.poll()
            poll.register(process.stdout, select.POLLIN)
            while True:
                if not poll.poll(_READY_SECONDS * 1000):
                    raise StalltopError(f"the monitor printed no window for {_READY_SECONDS:.0f} s")
                line = process.stdout.readline()
                if not line:
                    raise StalltopError("the monitor has ended")
                if not wait_for_rows or b'"rows": 0,' not in line:
                    break
            yield
            process.stdin.close()  # the monitor ends when its stdin ends
            process.wait(_READY_SECONDS)
        finally:
            process.kill()
