"""Measures what reading stacks costs the threads that are traced: for each slow call, by the depth of its
stack, and as a share of a core for threads that are sampled.

The stacks of slow calls are measured by the CPU time of the calling process, with and without them in turns.
The cost of samples is a few microseconds 49 times a second, far below what CPU times of a process show; so it
is the run time of the BPF programs, which the Linux kernel adds up, minus that of a run without samples.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from unittest import mock

from bench.measuring.cpu import cpu_ns
from bench.measuring.figures import FigureColumn
from bench.measuring.spread import Spread
from bench.measuring.table import TextTable
from bench.tracing.cost import find
from stalltop.demo.build import Built
from stalltop.probes.confined.link import Here
from stalltop.probes.maps import kept_calls
from stalltop.probes.programs import bpf_calls
from stalltop.probes.programs.bpf_calls import map_info
from stalltop.probes.stack_reading.stack_reader import StackReader
from stalltop.probes.stacks.layout import SAMPLE_NS, Stacks
from stalltop.probes.symbols.demangler import Demangler
from stalltop.probes.tracer.attach import Point
from stalltop.probes.tracer.kernel_side import KernelSide

SUMMARY: Final = "what the stack of a slow call costs, by its depth, and what samples of a busy thread cost"
_DEPTHS: Final = (1, 10, 45)
_CALLS: Final = 4_000
_SECONDS: Final = 2.0
_SYMBOL: Final = "cuCtxSynchronize"
_MOST: Final = 1_000_000
_RING_BYTES: Final = 16 << 20
_PROGRAM: Final = Path(__file__).parent / "native/deep.py"
_ENABLE_STATS: Final = 32  # BPF_ENABLE_STATS, with BPF_STATS_RUN_TIME


def run(built: Built, folder: Path, *, quick: bool) -> list[TextTable]:
    """Measures and returns the tables. Raises StalltopError."""
    rounds = 4 if quick else 15
    library = folder / "timed-libcuda.so"
    shutil.copyfile(built.cuda, library)
    with contextlib.ExitStack() as stack:
        for limit in ("SLOW_A_SECOND", "SAMPLES_A_SECOND", "MOST_OF_SLOT"):
            stack.enter_context(mock.patch.object(kept_calls, limit, _MOST))
        stack.enter_context(mock.patch.object(kept_calls, "SHARE", 1.0))
        kernel = KernelSide(slots=256, threads=64, ring_bytes=_RING_BYTES)
        stack.callback(kernel.close)
        found, offset = find(library, _SYMBOL)
        kernel.attach(str(library), [Point(offset, found.function.id)])
        demangler = Demangler()
        stack.callback(demangler.close)
        reader = StackReader(kernel.stacks, Here(), demangler)
        callers = {depth: stack.enter_context(_Deep(library, depth)) for depth in _DEPTHS}
        for caller in callers.values():
            _introduce(caller, kernel, reader)
        return [_slow(callers, kernel, rounds), _sampled(callers, kernel, reader, max(rounds // 3, 2))]


class _Deep:
    """A process that calls from a stack of ``depth`` functions and one module."""

    def __init__(self, library: Path, depth: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", _PROGRAM, library, str(depth)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self._answer()

    def do(self, command: str) -> int:
        """Runs a command; returns the CPU time that the process spent, ns."""
        assert self._process.stdin is not None
        before = cpu_ns(self.pid)
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        self._answer()
        return cpu_ns(self.pid) - before

    def _answer(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def __enter__(self) -> _Deep:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def _introduce(caller: _Deep, kernel: KernelSide, reader: StackReader) -> None:
    """Lets the BPF programs know where the thread has its frames."""
    while True:
        caller.do("call 100")
        reader.look()
        if any(stack.frames for (tid, _), stack in reader.take().items() if tid == caller.pid):
            return
        kernel.read()
        kernel.stacks.choose(Stacks.ALL)
        time.sleep(0.1)


def _slow(callers: dict[int, _Deep], kernel: KernelSide, rounds: int) -> TextTable:
    table = TextTable(
        f"stacks: ns of CPU time that the stack of a captured call adds, {rounds} interleaved rounds, median "
        "(middle half of the rounds)",
        ("Python frames", "before each call", FigureColumn("ns", "ns"), FigureColumn("added ns", "ns")),
    )
    spent: dict[tuple[int, str, Stacks], list[float]] = {}
    ways = [(depth, command, of) for depth in callers for command in ("call", "sleep") for of in _BOTH]
    order = random.Random(1)
    for number in range(rounds):
        print(f"stacks: round {number + 1} of {rounds}", file=sys.stderr)
        for depth, command, of in order.sample(ways, len(ways)):
            kernel.stacks.choose(of)
            calls = _CALLS if command == "call" else _CALLS // 16
            ns = callers[depth].do(f"{command} {calls}") / calls
            kernel.read()
            kernel.stacks.read()
            kernel.kept_calls(time.monotonic_ns())
            spent.setdefault((depth, command, of), []).append(ns)
    for depth in callers:
        for command, says in (("call", "another call"), ("sleep", "a sleep of 1 ms")):
            bare, own = (spent[depth, command, of] for of in _BOTH)
            added = Spread.of(ns - without for ns, without in zip(own, bare, strict=True))
            table.add(str(depth + 1), says, Spread.of(own).text(), added.text())
    return table


_BOTH: Final = (Stacks.OFF, Stacks.ALL)


def _sampled(callers: dict[int, _Deep], kernel: KernelSide, reader: StackReader, rounds: int) -> TextTable:
    table = TextTable(
        f"stacks: what samples of one thread cost, {rounds} rounds of {_SECONDS:.0f} s, median",
        (
            *("Python frames", "the thread"),
            FigureColumn("samples/s", ""),
            FigureColumn("ns a sample", "ns"),
            FigureColumn("% of a core", "%"),
        ),
    )
    kernel.stacks.choose(Stacks.OFF)
    with _run_times():
        for depth, caller in callers.items():
            kernel.samples.run(reader.look())
            for command, says in ((f"run {_SECONDS}", "computes"), (f"sleep {500 * _SECONDS:.0f}", "sleeps")):
                figures = []
                for _ in range(rounds):
                    ns: dict[int, float] = {}
                    samples, seconds = 0, 1.0
                    for every in (0, SAMPLE_NS):
                        kernel.samples.choose(every)
                        before, begun = _run_ns(kernel), time.monotonic()
                        caller.do(command)
                        seconds = time.monotonic() - begun
                        ns[every] = (_run_ns(kernel) - before) / seconds
                        samples = len([one for one in kernel.samples.read() if one.tgid == caller.pid])
                        kernel.read()
                    added = max(ns[SAMPLE_NS] - ns[0], 0.0)
                    figures.append((samples / seconds, added * seconds / max(samples, 1), added / 1e7))
                rates, each, share = (Spread.of(column) for column in zip(*figures, strict=True))
                table.add(str(depth + 1), says, rates.text(), each.text(), share.text(".3f"))
    table.notes += ["", "run time of the BPF programs with samples, minus that without"]
    return table


@contextlib.contextmanager
def _run_times() -> Iterator[None]:
    """Lets the Linux kernel add up the run times of BPF programs. Raises OSError."""
    attributes = struct.pack("=I", 0)
    fd = bpf_calls._bpf(_ENABLE_STATS, attributes)
    try:
        yield
    finally:
        os.close(fd)


def _run_ns(kernel: KernelSide) -> int:
    """Returns the run time of the programs that read samples or call those that do, ns."""
    programs = kernel._programs
    fds = (programs.switches, programs.wakes, programs.clock.fd)
    return sum(map_info(fd).get("run_time_ns", 0) for fd in fds if fd >= 0)
