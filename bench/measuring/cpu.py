"""Reads the CPU time of another process, to the nanosecond."""

from __future__ import annotations

import time
from typing import Final

_SCHEDULED: Final = 2
"""CPUCLOCK_SCHED in the Linux kernel's posix-timers.h: the run time of all threads, including ended
threads."""


def cpu_ns(pid: int) -> int:
    """Returns the user and system CPU time of process ``pid``, without its children, ns. Raises OSError if
    the process has ended."""
    # The number of the process's CPU clock, encoded as by MAKE_PROCESS_CPUCLOCK of the Linux kernel.
    return time.clock_gettime_ns((~pid << 3) | _SCHEDULED)
