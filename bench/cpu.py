"""CPU time of another process, to the nanosecond."""

from __future__ import annotations

import time
from typing import Final

_SCHEDULED: Final = 2
"""CPUCLOCK_SCHED of the kernel's posix-timers: run times of all threads, ended ones included."""


def cpu_ns(pid: int) -> int:
    """CPU time that process ``pid`` has used, user and system, without its children.

    Raises OSError where it has gone.
    """
    # MAKE_PROCESS_CPUCLOCK of the kernel: how clock_getcpuclockid() makes a clock of a process.
    return time.clock_gettime_ns((~pid << 3) | _SCHEDULED)
