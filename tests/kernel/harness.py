"""Helps tests on real processes: starts callers in cgroups and waits for conditions."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from elftools.elf.elffile import ELFFile

from stalltop.demo.build import Built
from stalltop.demo.caller import Caller, CallsMade
from stalltop.demo.cgroups import Cgroups, container_id, container_path
from stalltop.demo.latencies import Latency, write_table
from stalltop.probes.operations import match
from stalltop.probes.tracer.kernel_side import KernelSide, Point

T = TypeVar("T")

DEADLINE_SECONDS = 90.0
"""Longest wait for a condition, enough for a slow machine."""

every_interrupt_counts = pytest.mark.quiet_machine(
    reason="some kernels run no BPF program in interrupts of the machine's first process (its init or agent)",
    tries=3,
)
"""Marks a test that counts every completed request: the device's interrupt may interrupt any process."""


def wait_until(
    look: Callable[[], T], *, deadline: float = DEADLINE_SECONDS, step: float = 0.02, what: str = ""
) -> T:
    """Call ``look`` until its result is true, and return the result.

    Raises AssertionError with ``what`` after ``deadline`` seconds.
    """
    end = time.monotonic() + deadline
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"waited {deadline:g} s for {what or look}; last result: {found!r}")
        time.sleep(step)


@dataclass
class Workplace:
    """Starts callers, makes cgroups, and removes both. The fixture ``workplace`` makes a workplace per
    test."""

    built: Built
    cgroups: Cgroups
    folder: Path
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _tables: int = 0

    def cgroup(self, runtime: str = "docker", identity: str = "") -> Path:
        """Make a cgroup at the path that ``runtime`` would give to the container or job ``identity``."""
        return self.cgroups.make(container_path(runtime, identity or container_id()))

    def table(self, latencies: Mapping[str, Latency]) -> Path:
        """Write a file of latencies for ``Caller``."""
        self._tables += 1
        return write_table(latencies, self.folder / f"{self._tables}.latencies")

    def caller(
        self,
        *,
        cgroup: Path | None = None,
        latencies: Mapping[str, Latency] | None = None,
        folder: Path | None = None,
        name: str = "",
        load: str = "",
    ) -> Caller:
        """Start a process that loads the libraries of the functions in ``load`` and waits for commands."""
        table = self.table(latencies) if latencies else None
        caller = self._open.enter_context(
            Caller(self.built, cgroup=cgroup, table=table, folder=folder, name=name)
        )
        caller.answer()
        if load:
            caller.do(f"load {load}")
        return caller

    def close(self) -> None:
        """End all callers and remove their cgroups."""
        self._open.close()
        self.cgroups.close()


@contextlib.contextmanager
def workplace_in(built: Built) -> Iterator[Workplace]:
    """Make a workplace that lasts as long as the ``with`` block."""
    with tempfile.TemporaryDirectory(prefix="stalltop-test-") as folder:
        workplace = Workplace(built, Cgroups(), Path(folder))
        try:
            yield workplace
        finally:
            workplace.close()


def probe(kernel: KernelSide, library: Path, layer: str) -> None:
    """Probe every function of ``library`` that is traced in ``layer``; fail if one cannot be probed."""
    with library.open("rb") as stream:
        elf = ELFFile(stream)
        dynsym: Any = elf.get_section_by_name(".dynsym")
        found = {symbol["st_value"]: match(symbol.name, layer) for symbol in dynsym.iter_symbols()}
        points = [
            Point(next(iter(elf.address_offsets(value))), function.id)
            for value, function in found.items()
            if value and function is not None
        ]
    attachment = kernel.attach(str(library), points)
    assert points
    assert not attachment.failed


def total(reports: list[dict[str, CallsMade]], symbol: str) -> int:
    """Sum the calls of ``symbol`` over the reports of several callers."""
    return sum(report[symbol].calls for report in reports if symbol in report)
