"""Reads the CPU time of other processes, to the nanosecond."""

from __future__ import annotations

import contextlib
import time
from typing import Final

from stalltop.probes.host.process_use import children

_SCHEDULED: Final = 2
"""CPUCLOCK_SCHED in the Linux kernel's posix-timers.h: the run time of all threads, including ended
threads."""


def cpu_ns(pid: int) -> int:
    """Returns the user and system CPU time of process ``pid``, without its children, ns. Raises OSError if
    the process has ended."""
    # The number of the process's CPU clock, encoded as by MAKE_PROCESS_CPUCLOCK of the Linux kernel.
    return time.clock_gettime_ns((~pid << 3) | _SCHEDULED)


def helpers_cpu_ns(pid: int) -> dict[int, int]:
    """Returns the CPU time of each process that process ``pid``, or one of these, has started and that runs,
    ns."""
    found: dict[int, int] = {}
    waiting = children(pid)
    while waiting:
        child = waiting.pop()
        with contextlib.suppress(OSError):  # It has ended meanwhile.
            found[child] = cpu_ns(child)
            waiting |= children(child) - found.keys()
    return found
