"""Defines how long the stand-in functions take. ``native/libraries/standin.h`` documents the table that is
written here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

How = Literal["at-once", "spin", "sleep", "futex", "poll", "hold", "meet"]
Shape = Literal["fixed", "uniform", "lognormal"]

TABLE_VARIABLE = "STALLTOP_DEMO_TABLE"
"""Environment variable with the path of the table of latencies, for the stand-in libraries."""


@dataclass(frozen=True, slots=True)
class Latency:
    """What a stand-in function does when it is called. All its variants (such as ``_v2``) do the same."""

    how: How = "at-once"
    """What the calling thread does during the call. ``hold``: it waits as long as the file ``path`` exists.
    ``meet``: it waits for other processes that share the file ``path``, until ``spread`` processes have
    called the function as often as its own process, and then for another ``ns``."""
    shape: Shape = "fixed"
    ns: float = 0.0
    """Depends on ``shape``. fixed: the duration; uniform: the shortest duration; lognormal: the median
    duration. All in ns."""
    spread: float = 0.0
    """Depends on ``shape``. uniform: the longest duration, in ns; lognormal: the standard deviation of the
    natural logarithm of the duration. With ``meet``: the number of processes."""
    spike_share: float = 0.0
    """Share of the calls that take ``spike_factor`` times as long, 0 to 1."""
    spike_factor: float = 1.0
    error_share: float = 0.0
    """Share of the calls that fail, 0 to 1."""
    error_code: int = 1
    path: Path | None = None
    """For ``hold`` and ``meet``: the file on which the function waits. For other values of ``how``: a file
    that begins with a double in the host's byte order. Unless this number is 0, durations are multiplied by
    it. The file may change at any time."""

    def line(self, symbol: str) -> str:
        """Returns the line of the table for ``symbol``, the name of a function without its variant."""
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
