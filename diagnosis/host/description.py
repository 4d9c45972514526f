"""What is particular to one root cause in the chain that tells it."""

from __future__ import annotations

from dataclasses import dataclass

from stalltop.model.chain import Fix, Link


@dataclass(frozen=True, slots=True)
class Description:
    """Comes after the effect and the mechanisms."""

    summary: str
    """One line: who loses what to whom."""
    links: tuple[Link, ...]
    """Culprits, their reasons, and factors."""
    fixes: tuple[Fix, ...]
    confidence: float
    unknown: tuple[str, ...] = ()
    about: str = ""
