"""Writes figures for the sentences of a chain: with two significant digits and a unit."""

from __future__ import annotations


def figure(value: float) -> str:
    """Returns a count or rate with two significant digits: ``12``, ``3.4``, ``5,200``."""
    if value >= 10:
        digits = max(len(str(int(value))) - 2, 0)
        return f"{round(value / 10**digits) * 10**digits:,}"
    return f"{value:.1f}".removesuffix(".0")


def size(count: float) -> str:
    """Returns bytes as text: ``16 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{figure(count)} {unit}"


def duration(ns: float) -> str:
    """Returns a time as text: ``35 us``, ``1.2 s``."""
    for unit, longest in (("ns", 1e3), ("us", 1e6), ("ms", 1e9)):
        if ns < longest:
            return f"{figure(ns / (longest / 1e3))} {unit}"
    return f"{figure(ns / 1e9)} s"
