"""Figures of several rounds as one: the median, and where the middle half of the rounds lies."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bench.figures import Measured


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of some rounds."""

    median: float
    low: float
    """The first quartile; the lowest value of fewer than four rounds."""
    high: float
    """The third quartile; the highest value of fewer than four rounds."""
    rounds: int
    values: tuple[float, ...] = field(default=(), compare=False, repr=False)
    """In the order of the rounds."""

    @staticmethod
    def of(values: Iterable[float]) -> Spread:
        """The spread of ``values``, at least one."""
        kept = tuple(values)
        found = sorted(kept)
        if len(found) < 4:
            return Spread(statistics.median(found), found[0], found[-1], len(found), kept)
        low, _, high = statistics.quantiles(found, n=4, method="inclusive")
        return Spread(statistics.median(found), low, high, len(found), kept)

    def text(self, form: str = ".0f", unit: str | None = None) -> Measured:
        """``median (low-high)``, each formatted by ``form``; ``unit`` where the column has none."""
        text = f"{self.median:{form}} ({self.low:{form}}-{self.high:{form}})"
        return Measured(text, self.values, unit)


def ratio(above: Sequence[float], below: Sequence[float]) -> Spread | None:
    """The spread of the quotients round by round: what slows a whole round down falls out.

    None where no round has a quotient (a divisor that is not above 0 gives none).
    """
    quotients = [a / b for a, b in zip(above, below, strict=True) if b > 0]
    return Spread.of(quotients) if quotients else None
