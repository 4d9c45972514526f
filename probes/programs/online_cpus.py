"""Reads which CPUs are online."""

from __future__ import annotations


def online_cpus() -> list[int]:
    """Returns the numbers of the CPUs that are online. Raises OSError."""
    with open("/sys/devices/system/cpu/online", encoding="utf-8") as file:
        text = file.read().strip()
    cpus: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus
