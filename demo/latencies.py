"""Defines how long the stand-in functions take: the table that ``native/libraries/standin.h`` documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

How = Literal["at-once", "spin", "sleep", "futex", "poll", "hold", "meet"]
Shape = Literal["fixed", "uniform", "lognormal"]

TABLE_VARIABLE = "STALLTOP_DEMO_TABLE"
"""Environment variable from which the stand-in libraries take the path of their table of latencies."""


@dataclass(frozen=True, slots=True)
class Latency:
    """What a stand-in function and all its variants (such as ``_v2``) do when they are called."""

    how: How = "at-once"
    """What the calling thread does during the call. ``hold``: it waits while the file ``path`` exists.
    ``meet``: it waits until ``spread`` processes that share the file ``path`` have called the function as
    often as its own process has, and then for another ``ns``."""
    shape: Shape = "fixed"
    ns: float = 0.0
    """By ``shape``, ns: the duration (fixed), the shortest duration (uniform), the median (lognormal)."""
    spread: float = 0.0
    """By ``shape``: the longest duration, ns (uniform); the standard deviation of the duration's natural
    logarithm (lognormal). With ``meet``: the number of processes."""
    spike_share: float = 0.0
    """Share of the calls that take ``spike_factor`` times as long, 0 to 1."""
    spike_factor: float = 1.0
    error_share: float = 0.0
    """Share of the calls that fail, 0 to 1."""
    error_code: int = 1
    path: Path | None = None
    """For ``hold`` and ``meet``: the file that they wait on. For the other values of ``how``: a file that
    begins with a double in the host's byte order. Durations are multiplied by that number unless it is 0;
    the file may change at any time."""

    def line(self, symbol: str) -> str:
        """Returns the table's line for ``symbol``, a function's name without its variant."""
        numbers = (self.ns, self.spread, self.spike_share, self.spike_factor, self.error_share)
        fields = [symbol, self.how, self.shape, *(repr(float(number)) for number in numbers)]
        path = [str(self.path)] if self.path is not None else []
        if any(" " in field for field in path):
            raise ValueError("the path must not contain a space")
        return " ".join([*fields, str(self.error_code), *path])


def write_table(latencies: Mapping[str, Latency], path: Path) -> Path:
    """Writes the table of ``latencies`` (by function name) to ``path`` and returns ``path``."""
    path.write_text("".join(f"{latency.line(symbol)}\n" for symbol, latency in latencies.items()))
    return path
