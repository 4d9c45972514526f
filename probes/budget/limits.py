"""Represents the budget: how much CPU time the probes may take in one process, and on the whole host."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

PROCESS_PERCENT: Final = 2.0
"""Default of ``Budget.process_percent``."""
HOST_SHARE: Final = 0.25
"""The limit of the host, in percent of all its CPUs, is the limit of a process times this: 0.5 % for 2 %."""
OFF: Final = "off"
"""The text that stands for no budget."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on the CPU time of probes, in percent of one CPU."""

    process_percent: float
    """For each process."""
    host_percent: float
    """For all processes of the host together."""
    sample: bool = False
    """Whether functions may be counted for only a part of the time, or not at all, if nothing else keeps a
    process within its limit."""

    @classmethod
    def of_host(cls, process_percent: float = PROCESS_PERCENT, *, sample: bool = False) -> Budget:
        """Returns the budget of this host. The limit for all its processes follows from its number of CPUs,
        but is at least that of two processes: hosts with few CPUs would be held below the limit of one."""
        host_percent = HOST_SHARE * process_percent * (os.cpu_count() or 1)
        return cls(process_percent, max(host_percent, 2.0 * process_percent), sample)


def percent_of(text: str) -> float | None:
    """Returns the number of a text such as ``2%`` or ``2``; None for ``off``. Raises ValueError unless the
    number is above 0 and at most 100."""
    if text == OFF:
        return None
    percent = float(text.removesuffix("%"))
    if not 0.0 < percent <= 100.0:
        raise ValueError(text)
    return percent
