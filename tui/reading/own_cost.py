"""Measures what stalltop's own process costs: CPU time and memory."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_LEAST_SECONDS: Final = 0.9
"""Shortest time between two measurements, s."""
_WEIGHT: Final = 0.3
"""Weight of the newest measurement in the average, so that the figure is steady."""


class Cost(NamedTuple):
    """CPU time and memory of a process."""

    percent: float
    """CPU time, percent of one CPU."""
    memory_bytes: int
    """Resident memory."""


class OwnCost:
    """Measures this process; asked often, it measures once a second."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._cpu_seconds = time.process_time()
        self._cost: Cost | None = None

    def read(self) -> Cost | None:
        """Returns the cost of the last seconds; None in the first second."""
        now = time.monotonic()
        passed = now - self._at
        if passed >= _LEAST_SECONDS:
            used = time.process_time()
            percent = 100.0 * (used - self._cpu_seconds) / passed
            if self._cost is not None:
                percent = _WEIGHT * percent + (1.0 - _WEIGHT) * self._cost.percent
            self._cost = Cost(percent, int(_STATM.read_text().split()[1]) * _PAGE_BYTES)
            self._at, self._cpu_seconds = now, used
        return self._cost
