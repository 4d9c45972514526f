"""Summarizes the figures of several rounds: the median, and the range of the middle half of the rounds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bench.measuring.figures import FigureText


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of a figure's values in several rounds."""

    median: float
    low: float
    """The first quartile; with fewer than four rounds, the lowest value."""
    high: float
    """The third quartile; with fewer than four rounds, the highest value."""
    rounds: int
    values: tuple[float, ...] = field(default=(), compare=False, repr=False)
    """The values, in the order of the rounds."""

    @staticmethod
    def of(values: Iterable[float]) -> Spread:
        """Returns the spread of ``values``, of which there must be at least one."""
        kept = tuple(values)
        found = sorted(kept)
        if len(found) < 4:
            return Spread(statistics.median(found), found[0], found[-1], len(found), kept)
        low, _, high = statistics.quantiles(found, n=4, method="inclusive")
        return Spread(statistics.median(found), low, high, len(found), kept)

    def text(self, form: str = ".0f", unit: str | None = None) -> FigureText:
        """Returns ``median (low-high)``, each formatted by ``form``; ``unit`` is needed if the column has
        none."""
        text = f"{self.median:{form}} ({self.low:{form}}-{self.high:{form}})"
        return FigureText(text, self.values, unit)


def ratio(above: Sequence[float], below: Sequence[float]) -> Spread | None:
    """Returns the spread of ``above / below``, computed for each round. If the machine was slow during a
    whole round, both values are higher and their quotient is hardly affected.

    A round has no quotient if its divisor is not above 0. Returns None if no round has one.
    """
    quotients = [a / b for a, b in zip(above, below, strict=True) if b > 0]
    return Spread.of(quotients) if quotients else None
