"""Defines what is known of a cause before it occurs."""

from __future__ import annotations

from dataclasses import dataclass

from stalltop.model.chain import Severity


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause."""

    id: str
    title: str
    """Title of a few words, as the screen shows it."""
    about: str
    """One line that says what happens."""
    fault: bool = True
    """False if it is worth knowing but not a fault."""
    least: Severity = "low"
    """Least severity, whatever time it takes."""
    last_resort: bool = False
    """Whether it may not be a fault at all. It is reported only if nothing else is wrong with the tenant, and
    its severity is always low."""
    at_once: bool = False
    """Whether a single window is enough to open a problem: the cause does not come and go by chance."""
    stays_seconds: float = 5.0
    """Time for which its problem stays open after it was last seen: longer for what happens in a moment."""
