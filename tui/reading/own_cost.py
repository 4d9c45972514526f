"""Measures what stalltop itself costs, with its helper processes: CPU time and memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

_CPU_CLOCK: Final = 2
"""Number of the kind of clock that counts a process's CPU time (CPUCLOCK_SCHED, clock_getcpuclockid(3))."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_LEAST_SECONDS: Final = 0.9
"""Shortest time between two measurements, s."""
_WEIGHT: Final = 0.3
"""Weight of the newest measurement in the average, so that the figure is steady."""


class Cost(NamedTuple):
    """CPU time and memory of this process and its helpers."""

    percent: float
    """CPU time, percent of one CPU."""
    memory_bytes: int
    """Resident memory of this process, and private memory of its helpers."""


class OwnCost:
    """Measures this process and its ``helpers``, whose PIDs it asks for; asked often, it measures once a
    second."""

    def __init__(self, helpers: Callable[[], Iterable[int]] = tuple) -> None:
        self._helpers = helpers
        self._at = time.monotonic()
        self._used_ns = time.process_time_ns()
        self._helpers_ns: dict[int, int] = {}
        """CPU time of each helper until the last measurement."""
        self._cost: Cost | None = None

    def read(self) -> Cost | None:
        """Returns the cost of the last seconds; None in the first second."""
        now = time.monotonic()
        passed = now - self._at
        if passed >= _LEAST_SECONDS:
            used_ns, memory_bytes = time.process_time_ns(), _memory_bytes("self")
            spent_ns = used_ns - self._used_ns
            helpers_ns: dict[int, int] = {}
            for pid in self._helpers():
                try:
                    helpers_ns[pid] = time.clock_gettime_ns(~pid << 3 | _CPU_CLOCK)
                    memory_bytes += _memory_bytes(str(pid), private=True)
                except OSError:  # It has ended.
                    continue
                spent_ns += helpers_ns[pid] - self._helpers_ns.get(pid, 0)
            percent = spent_ns / 1e7 / passed
            if self._cost is not None:
                percent = _WEIGHT * percent + (1.0 - _WEIGHT) * self._cost.percent
            self._cost = Cost(percent, memory_bytes)
            self._at, self._used_ns, self._helpers_ns = now, used_ns, helpers_ns
        return self._cost


def _memory_bytes(process: str, *, private: bool = False) -> int:
    with open(f"/proc/{process}/statm", "rb", buffering=0) as file:
        _, resident, shared, *_ = map(int, file.read().split())
    return (resident - shared * private) * _PAGE_BYTES
