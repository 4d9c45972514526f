"""CPU lists in the format of the Linux kernel, such as ``0-3,8`` (cpuset(7), "List format")."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_MOST_CPUS: Final = 8192
"""Maximum number of CPUs in one range of a list; 8192 is the largest ``NR_CPUS`` that a Linux kernel for x86
can be built with. Longer ranges come from damaged text and are cut off."""


@lru_cache(256)
def cpus_of(text: str) -> frozenset[int]:
    """Parses a CPU list such as ``0-3,8``. Parts that are neither a number nor a range are ignored."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if first.isdecimal() and (last.isdecimal() or not dash):
            found.update(range(int(first), min(int(last or first), int(first) + _MOST_CPUS - 1) + 1))
    return frozenset(found)


def list_of(cpus: Iterable[int]) -> str:
    """Formats CPU numbers as a CPU list, such as ``0-3,8``."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
