"""Connects the discovery of libraries to a kernel side, or to fake probes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from stalltop.model.window import Missing
from stalltop.probes import operations
from stalltop.probes.confined.link import Answerer
from stalltop.probes.libraries.discovery import Libraries
from stalltop.probes.libraries.probed_file import Probes
from stalltop.probes.libraries.processes import Processes
from stalltop.probes.tracer.attach import Point
from stalltop.probes.tracer.kernel_side import KernelSide


class FakeProbes:
    """Stands for the probes at ``points``; the first ``failed`` of them count as refused."""

    def __init__(self, points: Sequence[Point], failed: int = 0) -> None:
        self.failed = [(point, "no such luck") for point in points[:failed]]
        self.count = 2 * (len(points) - failed)
        self.closed = False

    def joined(self, other: FakeProbes) -> FakeProbes:
        other.closed = True
        return self

    def close(self) -> None:
        self.closed = True


class TracedDiscovery:
    """Runs discovery with a kernel side that probes only files below ``folder``.

    The host may run other CUDA programs at the same time; they get fake probes.
    """

    def __init__(
        self,
        kernel: KernelSide,
        folder: Path,
        processes: Processes | None = None,
        asks: Answerer | None = None,
    ) -> None:
        self.kernel = kernel
        self.folder = folder
        self.attached: list[str] = []
        self.counts: Counter[tuple[int, str]] = Counter()
        self.libraries = Libraries(self.attach, processes, asks)

    def attach(self, path: str, points: Sequence[Point]) -> Probes:
        target = os.readlink(path)
        if not target.startswith(str(self.folder)):
            return FakeProbes(points)  # a file of another program must not take slots
        self.attached.append(target.removeprefix(f"{self.folder}/"))
        return self.kernel.attach(path, points)

    def update(self) -> None:
        self.libraries.update()

    @property
    def rows(self) -> dict[tuple[str, str], tuple[int, int]]:
        """The probed files below ``folder``: (functions, processes) by (path below the folder, layer)."""
        return {
            (row.path.removeprefix(f"{self.folder}/"), row.layer): (row.functions, row.processes)
            for row in self.libraries.library_rows()
            if row.path.startswith(str(self.folder))
        }

    def missing(self, pid: int) -> list[Missing]:
        return [missing for missing in self.libraries.missing() if missing.pid == pid]

    def calls(self, pid: int) -> dict[str, int]:
        """Return the calls of a process so far, by operation."""
        counts = self.kernel.read()
        for key, calls in zip(counts.keys, counts.calls, strict=True):
            if key.between_calls:
                continue
            self.counts[key.tgid, operations.operation(key.operation).name] += int(calls)
        return {name: calls for (tgid, name), calls in self.counts.items() if tgid == pid and calls}
