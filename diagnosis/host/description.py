"""Defines what a root cause adds to the chain that reports it."""

from __future__ import annotations

from dataclasses import dataclass

from stalltop.model.chain import Fix, Link


@dataclass(frozen=True, slots=True)
class Description:
    """The parts of a chain that follow the effect and the mechanisms."""

    summary: str
    """One line: who loses what to whom."""
    links: tuple[Link, ...]
    """Culprits, their reasons, and factors."""
    fixes: tuple[Fix, ...]
    confidence: float
    unknown: tuple[str, ...] = ()
    about: str = ""
