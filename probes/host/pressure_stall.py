"""Reads the share of time in which tasks of this host waited for CPUs, memory or block I/O (pressure stall
information, PSI)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

RESOURCES: Final = ("cpu", "memory", "io")
"""Files of ``/proc/pressure`` (Documentation/accounting/psi.rst)."""


class HostPressure:
    """Reads pressure stall information. Shares are those of the time since the previous read."""

    def __init__(
        self,
        root: Path = Path("/"),
        clock: Callable[[], int] = lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC),
    ) -> None:
        """``clock`` returns the time in nanoseconds."""
        self._folder = root / "proc/pressure"
        self._clock = clock
        self._before = self._look()

    def read(self) -> dict[str, float]:
        """Returns, for each resource, the share of time in which at least one task waited for it (the line
        ``some``), in percent. A resource is left out if the Linux kernel does not report it: either it was
        built without PSI, or PSI is off (``psi=0``)."""
        now, before = self._look(), self._before
        self._before = now
        return {
            name: min(max(100.0 * (total - before[name][1]) / (at - before[name][0]), 0.0), 100.0)
            for name, (at, total) in now.items()
            if name in before and at > before[name][0]
        }

    def _look(self) -> dict[str, tuple[int, int]]:
        """Returns, for each resource, the time of this reading, and the total time that tasks have waited for
        the resource, both in ns."""
        found = {}
        for name in RESOURCES:
            try:
                at, text = self._clock(), (self._folder / name).read_text()
                # The line is: some avg10=0.00 avg60=0.00 avg300=0.00 total=1027569, with the total in µs.
                some = next(line for line in text.splitlines() if line.startswith("some "))
                found[name] = at, int(some.rpartition("total=")[2]) * 1000
            except (OSError, ValueError, StopIteration):
                continue
        return found
