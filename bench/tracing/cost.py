"""Measures what tracing one call costs: the ns that stalltop's probes add, compared with other tools that
time the same function.

Every tool (contender) has its own copy of the library and its own calling process, so that all tools stay
attached while they take turns. A round measures each tool once, and ratios are computed within a round. Times
are CPU times of the calling process: probes run in its threads, and other load on the machine affects CPU
time less than wall time.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from bench.measuring.cpu import cpu_ns
from bench.measuring.figures import FigureColumn, FigureText
from bench.measuring.spread import Spread, ratio
from bench.measuring.table import TextTable
from bench.tracing.contenders import (
    Bpftrace,
    Contender,
    Empty,
    EmptyPrograms,
    Nothing,
    RingBuffer,
    Stalltop,
    StalltopKernel,
    bpftrace_command,
)
from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.probes.binaries.elf import FoundFunction, read_image
from stalltop.probes.binaries.placement import places
from stalltop.probes.tracer.attach import Point

SUMMARY: Final = "ns that tracing adds to a call, compared with empty probes, bpftrace and a ring buffer"
_BURST_SECONDS: Final = 0.1
_WARM_UP_CALLS: Final = 10_000
_THREADS: Final = (1, 2, 8)
"""Numbers of threads, all of one process. With more than two, only stalltop and empty probes are measured."""


class CostCase(NamedTuple):
    """One function that is timed."""

    symbol: str
    item: str
    """Arguments of the function in an item of `demo/native/caller/caller.c`, after the number of calls."""
    says: str
    """One line for the notes of the table: a peculiarity of this function."""


LAUNCH: Final = CostCase(
    "cudaLaunchKernel", "", "begins with push, which the Linux kernel emulates under any probe"
)
COPY: Final = CostCase(
    "cudaMemcpyAsync", ":4096:1", "begins with push, too; bytes and direction are read from its arguments"
)
DRIVER: Final = CostCase("cuLaunchKernel", "", "begins with cmpl, which the Linux kernel single-steps")
CASES: Final = (LAUNCH, COPY, DRIVER)
_HEAD: Final = (
    *("function", "tool", "probe at", "way"),
    FigureColumn("ns", "ns", ""),
    FigureColumn("added ns", "ns"),
    FigureColumn("/ empty pair"),
    FigureColumn("/ bpftrace"),
    FigureColumn("counted", "%", "higher"),
)


@dataclass
class ContestEntry:
    """One contender (tool) on one function, with a process that calls this function."""

    case: CostCase
    tool: str
    place: str
    """Where the probe is, such as ``first byte``."""
    way: str
    caller: Caller
    contender: Contender
    ns: dict[int, list[float]] = field(default_factory=dict)
    """Nanoseconds per call in every round, by number of threads."""
    made: int = 0
    counted: int | None = None

    def burst(self, threads: int, calls: int) -> float:
        """Makes ``calls`` calls in each of ``threads`` threads; returns the CPU time per call, ns."""
        before = cpu_ns(self.caller.pid)
        self.caller.run(f"{self.case.symbol}:{calls}{self.case.item}", threads=threads, timed=False)
        spent = cpu_ns(self.caller.pid) - before
        self.made += calls * threads
        self.contender.settle()
        return spent / (calls * threads)


def run(built: Built, folder: Path, *, quick: bool) -> list[TextTable]:
    """Measures and returns the tables. Copies of the libraries go to ``folder``. Raises StalltopError."""
    rounds = 5 if quick else 25
    with contextlib.ExitStack() as stack:
        contest = _Field(built, folder, stack)
        entries = [entry for case in CASES for entry in contest.entries(case)]
        for threads in _THREADS:
            _take_turns([entry for entry in entries if _takes_part(entry, threads)], threads, rounds)
        for entry in entries:
            entry.counted = entry.contender.finish()
    return [_table(entries, threads, rounds) for threads in _THREADS]


def _takes_part(entry: ContestEntry, threads: int) -> bool:
    if threads > 2:
        return entry.tool == "no probe" or (entry.way == "multi" and entry.tool in ("empty pair", "stalltop"))
    return threads == 1 or entry.way != "perf" or entry.tool == "bpftrace"


def _take_turns(entries: list[ContestEntry], threads: int, rounds: int) -> None:
    calls = {}
    for entry in entries:
        ns = min(entry.burst(threads, _WARM_UP_CALLS) for _ in range(3))
        calls[id(entry)] = max(_WARM_UP_CALLS, int(_BURST_SECONDS * 1e9 / ns))
    order = random.Random(1)
    for number in range(rounds):
        print(f"cost: {threads} thread(s), round {number + 1} of {rounds}", file=sys.stderr)
        for entry in order.sample(entries, len(entries)):
            entry.ns.setdefault(threads, []).append(entry.burst(threads, calls[id(entry)]))
        # Entries run in random order, but each appends one value per round: values at the same index are from
        # the same round.


class _Field:
    """Creates the contenders, and holds the BPF programs and maps that they share. Closing ``stack`` ends
    everything that was started."""

    def __init__(self, built: Built, folder: Path, stack: contextlib.ExitStack) -> None:
        self._built = built
        self._folder = folder
        self._stack = stack
        self._made = 0
        self._sides = {"multi": StalltopKernel("multi"), "perf": StalltopKernel("perf")}
        self._empties = {way: EmptyPrograms(way) for way in self._sides}
        for way, side in self._sides.items():
            stack.callback(side.kernel.close)
            stack.callback(self._empties[way].close)
        self._bpftrace = bpftrace_command()

    def entries(self, case: CostCase) -> Iterator[ContestEntry]:
        """Yields every contender on the function of ``case``."""
        found, chosen = find(self._built.folder / _library(self._built, case), case.symbol)
        point, first = Point(chosen, found.function.id), Point(found.offset, found.function.id)
        place = "first byte" if point == first else f"byte {chosen - found.offset}"
        yield self._entry(case, "no probe", "", "", lambda path, _: Nothing())
        yield from self._pair(case, point, place, "multi")
        if case is COPY:
            return
        yield from self._pair(case, point, place, "perf")
        if point != first:
            yield from self._pair(case, first, "first byte", "multi")
        yield self._entry(case, "ring buffer", place, "multi", lambda path, _: RingBuffer(path, chosen))
        command = self._bpftrace
        if command is not None:
            yield self._entry(
                case, "bpftrace", "first byte", "perf", lambda path, _: Bpftrace(command, path, case.symbol)
            )

    def _pair(self, case: CostCase, point: Point, place: str, way: str) -> Iterator[ContestEntry]:
        empty, side = self._empties[way], self._sides[way]
        yield self._entry(case, "empty pair", place, way, lambda path, _: Empty(empty, path, point.offset))
        yield self._entry(
            case, "stalltop", place, way, lambda path, caller: Stalltop(side, path, point, caller.pid)
        )

    def _entry(
        self, case: CostCase, tool: str, place: str, way: str, make: Callable[[Path, Caller], Contender]
    ) -> ContestEntry:
        self._made += 1
        own = self._folder / str(self._made)
        own.mkdir()
        for library in (self._built.cudart, self._built.cuda):
            # The copy has another name, so that a monitor on this host does not trace it as a CUDA library.
            shutil.copyfile(library, own / f"timed-{library.name}")
            (own / library.name).symlink_to(f"timed-{library.name}")
        caller = self._stack.enter_context(Caller(self._built, folder=own))
        caller.do(f"load {case.symbol}")
        contender = make(own / f"timed-{_library(self._built, case)}", caller)
        self._stack.callback(contender.finish)
        return ContestEntry(case, tool, place, way, caller, contender)


def _library(built: Built, case: CostCase) -> str:
    return (built.cuda if case is DRIVER else built.cudart).name


def find(path: Path, symbol: str) -> tuple[FoundFunction, int]:
    """Returns the function ``symbol`` of the file at ``path``, and the offset in the file at which stalltop
    probes that function."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        image = read_image(fd, ("runtime", "driver"))
        for place in places(fd, image):
            if place.found.symbol == symbol:
                return place.found, place.offset
    finally:
        os.close(fd)
    raise LookupError(f"{symbol} is not in {path}")


def _table(entries: list[ContestEntry], threads: int, rounds: int) -> TextTable:
    """Returns the table for calls in ``threads`` threads. "added ns" is the time of a call with the
    contender's probes minus the time without a probe in the same round."""
    table = TextTable(
        f"cost, {threads} thread{'s' * (threads > 1)}: ns of CPU time a call, {rounds} interleaved rounds, "
        "median (middle half of the rounds)",
        _HEAD,
        others=("no probe", "empty pair", "ring buffer", "bpftrace"),
    )
    for case in CASES:
        own = [entry for entry in entries if entry.case is case and threads in entry.ns]
        bare = next(entry for entry in own if entry.tool == "no probe").ns[threads]
        added = {
            id(entry): [ns - without for ns, without in zip(entry.ns[threads], bare, strict=True)]
            for entry in own
        }
        rival = next((entry for entry in own if entry.tool == "bpftrace"), None)
        for entry in own:
            is_bare = entry.tool == "no probe"
            empty = next(
                (
                    other
                    for other in own
                    if other.tool == "empty pair" and (other.way, other.place) == (entry.way, entry.place)
                ),
                None,
            )
            table.add(
                case.symbol if is_bare else "",
                entry.tool,
                entry.place or "-",
                entry.way or "-",
                Spread.of(entry.ns[threads]).text(),
                "-" if is_bare else Spread.of(added[id(entry)]).text(),
                _quotient(added, entry, empty if entry is not empty else None),
                _quotient(added, entry, rival if entry is not rival and not is_bare else None),
                _share(entry),
            )
    table.notes += ["", *(f"{case.symbol}: {case.says}" for case in CASES)]
    table.notes.append("counted: share of all calls made (with any number of threads) that the tool has seen")
    if rival is None:
        table.notes.append("bpftrace is left out: it is not installed, or cannot trace here")
    return table


def _quotient(added: dict[int, list[float]], entry: ContestEntry, other: ContestEntry | None) -> str:
    if other is None or entry.tool == "no probe":
        return "-"
    found = ratio(added[id(entry)], added[id(other)])
    return found.text(".2f") if found else "-"


def _share(entry: ContestEntry) -> str:
    if entry.counted is None:
        return "-"
    share = 100 * entry.counted / entry.made
    return FigureText("all" if entry.counted == entry.made else f"{share:.1f} %", (share,))
