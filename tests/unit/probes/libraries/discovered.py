"""Runs the discovery of libraries for chosen processes, without a kernel side."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from stalltop.model.window import Missing
from stalltop.probes.libraries import discovery as discovery
from stalltop.probes.libraries import processes
from stalltop.probes.libraries.discovery import Libraries
from stalltop.probes.libraries.probed_file import ProbedFile
from stalltop.probes.libraries.processes import Processes
from stalltop.probes.tracer.attach import Point


class NoProbes:
    """Stands for probes that are attached to nothing."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.count = 2 * len(points)
        self.failed: list[tuple[Point, str]] = []

    def joined(self, other: NoProbes) -> NoProbes:
        return self

    def close(self) -> None:
        pass


class Discovered:
    """The discovery of the libraries of the processes ``pids``, which are all that it sees."""

    def __init__(self, patch: pytest.MonkeyPatch, *pids: int) -> None:
        patch.setattr(processes, "pids", lambda: set(pids))
        patch.setattr(processes, "LIST_SECONDS", 1e9)  # After the first update, no process is read again.
        # Without probes, the memory of a process does not differ from its files.
        patch.setattr(ProbedFile, "compared", lambda file, mapping: ())
        patch.setattr(discovery, "START_SECONDS", 60.0)
        patch.setattr(discovery, "BUDGET_SECONDS", 60.0)
        self.attached: list[str] = []
        self.libraries = Libraries(self._attach, Processes(watch=None))

    def update(self) -> None:
        self.libraries.update()

    def missing(self) -> dict[str, str]:
        """Returns the reasons by file."""
        return {one.what: one.reason for one in self.all_missing()}

    def all_missing(self) -> tuple[Missing, ...]:
        return self.libraries.missing()

    def functions(self) -> dict[tuple[str, str], int]:
        """Returns the number of functions by path and layer."""
        return {(row.path, row.layer): row.functions for row in self.libraries.library_rows()}

    def _attach(self, path: str, points: Sequence[Point]) -> NoProbes:
        self.attached.append(os.readlink(path))
        return NoProbes(points)


@contextmanager
def discovered(patch: pytest.MonkeyPatch, *pids: int) -> Iterator[Discovered]:
    """Provides the discovery after its first update."""
    found = Discovered(patch, *pids)
    found.libraries.start()
    try:
        found.update()
        yield found
    finally:
        found.libraries.close()
