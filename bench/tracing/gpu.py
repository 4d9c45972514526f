"""Measures how much stalltop slows a program on a real GPU: a loop of launches, copies and waits, without
stalltop, with stalltop only reading the GPU's figures, and with stalltop tracing."""

from __future__ import annotations

import contextlib
import ctypes.util
import os
import random
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.measuring.figures import FigureColumn
from bench.measuring.program import ROOT
from bench.measuring.spread import Spread, ratio
from bench.measuring.table import TextTable
from bench.tracing.gpu_loop import LAUNCHES
from stalltop.demo.build import Built
from stalltop.formats.text import call_costs
from stalltop.model.errors import StalltopError
from stalltop.probes.nvml.reader import DeviceReader
from stalltop.probes.readiness.surroundings import nvml_costs

SUMMARY: Final = "what a loop of CUDA calls on a real GPU loses to stalltop, and what NVML's calls cost"
OFF, READ, TRACING = "off", "GPU read each second", "traced"
STATES: Final = (OFF, READ, TRACING)
_WARM_UP: Final = 200
_BURST_NS: Final = 500_000_000
_READY_SECONDS: Final = 60.0


def run(built: Built, folder: Path, *, quick: bool) -> list[TextTable]:
    """Measures and returns the tables; if there is no GPU, a table that says so. Raises StalltopError if the
    loop cannot run."""
    rounds = 3 if quick else 15
    library = _runtime()
    if library is None or not os.path.exists("/dev/nvidia0"):
        return [TextTable("gpu: no GPU, or no libcudart: nothing was measured", ("",))]
    table = measure(library, rounds)
    table.notes += ["", *call_costs.text(nvml_costs(), width=110).splitlines()]
    return [table]


def measure(library: str, rounds: int) -> TextTable:
    """Measures the loop with the CUDA runtime ``library``, in each round once in each of ``STATES``, in
    random order. Raises StalltopError if the loop cannot run."""
    found: dict[str, list[float]] = {state: [] for state in STATES}
    order = random.Random(1)
    with _loop(library) as loop:
        _burst(loop, _WARM_UP)
        turns = max(int(_BURST_NS * _WARM_UP / _burst(loop, _WARM_UP)), 1)
        for number in range(rounds):
            print(f"gpu: round {number + 1} of {rounds}", file=sys.stderr)
            for state in order.sample(STATES, len(STATES)):
                with _host_in(state):
                    found[state].append(_burst(loop, turns) / turns)
    table = TextTable(
        f"gpu: ns a round of the loop ({LAUNCHES} launches, 2 copies, a wait), {rounds} interleaved rounds,"
        " median (middle half)",
        ("stalltop", FigureColumn("ns a round", "ns"), FigureColumn("/ off")),
        others=(OFF,),
    )
    for state in STATES:
        quotient = ratio(found[state], found[OFF])
        table.add(state, Spread.of(found[state]).text(), quotient.text(".2f") if quotient else "-")
    return table


def _runtime() -> str | None:
    """Returns the path of a CUDA runtime: the one fetched for the tests (in .vendor), else the name of the
    system's own; None if there is neither."""
    fetched = sorted(ROOT.glob(".vendor/cudart*/nvidia/*/lib/libcudart.so.*"))
    return str(fetched[0]) if fetched else ctypes.util.find_library("cudart")


@contextlib.contextmanager
def _loop(library: str) -> Iterator[subprocess.Popen[str]]:
    loop = subprocess.Popen(
        [sys.executable, "-m", "bench.tracing.gpu_loop", library],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        if _line(loop) != "ready":
            raise StalltopError(f"cannot run the loop of CUDA calls with {library}")
        yield loop
    finally:
        loop.kill()
        loop.communicate()


def _burst(loop: subprocess.Popen[str], turns: int) -> float:
    """Runs ``turns`` rounds of the loop; returns how long they took together, ns."""
    assert loop.stdin is not None
    loop.stdin.write(f"{turns}\n")
    loop.stdin.flush()
    return float(_line(loop))


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], _READY_SECONDS)[0]:
        raise StalltopError(f"no answer within {_READY_SECONDS:.0f} s")
    line = process.stdout.readline()
    if not line:
        raise StalltopError("the process ended before it answered")
    return line.strip()


@contextlib.contextmanager
def _host_in(state: str) -> Iterator[None]:
    if state == OFF:
        yield
    elif state == READ:
        reader, over = DeviceReader(), threading.Event()

        def read() -> None:
            while not over.wait(1.0):
                reader.read()

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(_READY_SECONDS)
            reader.close()
    else:
        monitor = subprocess.Popen(
            [sys.executable, "-m", "bench.tracing.headless"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        try:
            _line(monitor)  # waits for the first window, because all probes are attached by then
            yield
        finally:
            monitor.communicate()
