"""Texts about moments and about the length of windows. Pure functions."""

from __future__ import annotations

from stalltop.model.text import figures
from stalltop.tui.past.moments import Picture


def length_text(length: float | None) -> str:
    """Return the chosen length of the window as text."""
    return "since start" if length is None else f"last {length:.0f}s"


def ago_text(seconds: float) -> str:
    """Format how long ago something is: ``-7s``, ``-2m05s``, ``-3h20m``, ``-4d03h``."""
    whole = round(seconds)
    if whole < 100:
        return f"-{whole}s"
    if whole < 6_000:
        return f"-{whole // 60}m{whole % 60:02}s"
    if whole < 172_800:
        return f"-{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"-{whole // 86_400}d{whole % 86_400 // 3600:02}h"


def changes_text(against: Picture) -> str:
    """Return the part of a table's title about the moment that the table is compared with."""
    return f"   changes since {figures.clock(against.at)} ({length_text(against.length)})"
