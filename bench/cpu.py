"""Reads the CPU time of another process, to the nanosecond."""

from __future__ import annotations

import time
from typing import Final

_SCHEDULED: Final = 2
"""CPUCLOCK_SCHED of the kernel's posix-timers: the run time of all threads, including ended ones."""


def cpu_ns(pid: int) -> int:
    """Returns the user and system CPU time of process ``pid``, without its children, ns. Raises OSError if
    the process has ended."""
    # The kernel's MAKE_PROCESS_CPUCLOCK, with which clock_getcpuclockid() encodes a process.
    return time.clock_gettime_ns((~pid << 3) | _SCHEDULED)
