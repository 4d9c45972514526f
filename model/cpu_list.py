"""Sets of CPUs as the kernel writes them: ``0-3,8``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_MOST_CPUS: Final = 8192
"""As many as a kernel can be built for (``NR_CPUS``): a range beyond that is damaged text."""


def cpus_of(text: str) -> frozenset[int]:
    """The CPUs of a list as the kernel writes it, such as ``0-3,8``; none where it is none."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if first.isdecimal() and (last.isdecimal() or not dash):
            found.update(range(int(first), min(int(last or first), int(first) + _MOST_CPUS - 1) + 1))
    return frozenset(found)


def list_of(cpus: Iterable[int]) -> str:
    """CPUs as the kernel lists them."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
