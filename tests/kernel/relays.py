"""Runs native/relay.c, a program whose threads and processes wake and delay each other. Adds up the call
times and the lost time that the BPF programs report for it."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from stalltop.demo.build import compiler
from stalltop.model.window import SPLITS
from stalltop.probes.maps.raw import RawCharge
from stalltop.probes.operations import BETWEEN_CALLS, Function
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.traced_program import NATIVE, TracedProgram, points

FUNCTIONS = tuple(
    Function(number, symbol, 10 * number, "driver")
    for number, symbol in enumerate(("inner", "outer", "spin"), 1)
)
NAME = {function.operation: function.symbol for function in FUNCTIONS}
NAME |= {info.id: info.name for info in BETWEEN_CALLS}


def compile_relay(into: Path) -> Path:
    """Compile native/relay.c into the folder ``into``."""
    program = into / "relay"
    flags = [
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fno-optimize-sibling-calls",
        "-fno-omit-frame-pointer",
        "-rdynamic",
    ]
    command = [*compiler(), *flags, "-o", str(program), str(NATIVE / "relay.c"), "-lpthread"]
    subprocess.run(command, check=True, timeout=60)
    return program


class Relay(TracedProgram):
    """A running program of native/relay.c, in ``cgroup`` and on ``cpu`` if these are given.

    The program continues with each line on its stdin. ``said`` has the numbers of its latest answer.
    """

    def __init__(
        self, path: Path, *words: object, cgroup: Path | None = None, cpu: int | None = None
    ) -> None:
        def prepare() -> None:
            if cgroup is not None:
                (cgroup / "cgroup.procs").write_text(str(os.getpid()))
            if cpu is not None:
                os.sched_setaffinity(0, {cpu})

        self.said: list[int] = []
        super().__init__(path, prepare, words)

    def _answer(self) -> list[int]:
        self.said = super()._answer()
        return self.said


@dataclass
class RelayRow:
    """Sums of the outermost calls of one operation of one process."""

    calls: int = 0
    total_ns: int = 0
    parts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))


@dataclass
class RelayTotals:
    """Everything that a kernel side has reported so far."""

    kernel: KernelSide
    rows: dict[tuple[int, str], RelayRow] = field(default_factory=lambda: defaultdict(RelayRow))
    """Sums by (PID, function)."""
    charges: list[RawCharge] = field(default_factory=list)

    def read(self) -> Self:
        """Add what the kernel side counted since the previous read.

        Checks that the parts of each split add up to the total time of their row.
        """
        counts = self.kernel.read()
        assert counts.split_ns is not None or not counts.keys
        for place, key in enumerate(counts.keys):
            assert counts.split_ns is not None
            parts, total = counts.split_ns[place].tolist(), int(counts.total_ns[place])
            assert sum(parts) == total
            assert max(parts) <= total  # a negative part would wrap around to a huge one
            if key.nested:
                continue
            row = self.rows[key.tgid, NAME[key.operation]]
            row.calls += int(counts.calls[place])
            row.total_ns += total
            for name, ns in zip(SPLITS, parts, strict=True):
                row.parts[name] += ns
        self.charges += self.kernel.evidence.charges()
        return self

    def charged(self, tgid: int, part: str, operation: str | None = None) -> dict[int, int]:
        """Return the time in ns that the process ``tgid`` lost to ``part``, by the PID of the culprit.

        Counts only the time in calls of ``operation``; if this is None, the time in all operations.
        """
        found: dict[int, int] = defaultdict(int)
        for charge in self.charges:
            named = operation in (None, NAME[charge.operation])
            if named and (charge.tgid, SPLITS[charge.part]) == (tgid, part):
                found[charge.culprit_tgid] += charge.ns
        return dict(found)

    def lost(self, tgid: int, part: str) -> int:
        """Return the sum of ``part`` over all rows of the process ``tgid``, in ns."""
        return sum(row.parts[part] for (own, _), row in self.rows.items() if own == tgid)


def tracing(path: Path) -> KernelSide:
    """Return a kernel side that traces the relay at ``path``."""
    kernel = KernelSide(slots=256, threads=256, functions=FUNCTIONS)
    assert kernel.no_splits is None
    assert not kernel.attach(str(path), points(path, FUNCTIONS)).failed
    return kernel
