"""Measures what the probes cost: calls per second of each process and function, averaged over at least a
second."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stalltop.probes.budget.hot import HOT
from stalltop.probes.layout import HOST_GAP
from stalltop.probes.maps.slots import Counts
from stalltop.probes.operations import OPERATIONS

LEAST_SECONDS: Final = 0.95
"""Shortest time, in seconds, over which calls per second are computed. Windows are shorter at the start."""

OTHERS: Final = ""
"""Stands for all functions that are not hot. Nothing is decided for one of these alone."""
PAUSES: Final = "after pauses"
"""Stands for what calls after pauses cost more, as a number of calls (``pauses.extra_calls``)."""
SYMBOL_OF: Final[Mapping[int, str]] = {
    info.id: symbol if (symbol := info.name.partition(" ")[0]) in HOT else OTHERS for info in OPERATIONS
}
"""Symbol of the function of each operation, or ``OTHERS``. Copies have an operation for each direction."""


class Rate(NamedTuple):
    """Calls per second of one function in one process."""

    outermost: float
    nested: float
    """Calls inside other traced calls."""

    @property
    def calls(self) -> float:
        """Returns all calls per second."""
        return self.outermost + self.nested


NO_CALLS: Final = Rate(0.0, 0.0)

Rates = Mapping[int, Mapping[str, Rate]]
"""Calls per second by PID and symbol (or ``OTHERS`` or ``PAUSES``)."""


@dataclass(slots=True)
class Demand:
    """Adds up calls until they cover ``LEAST_SECONDS``."""

    _seconds: float = 0.0
    _calls: dict[tuple[int, str], list[float]] = field(default_factory=dict)

    def forget(self) -> None:
        """Drops what was added since rates were returned."""
        self._calls.clear()
        self._seconds = 0.0

    def add(self, counts: Counts, extra: Mapping[int, float], seconds: float) -> Rates | None:
        """Adds the calls of a window of ``seconds``, and what ``pauses.extra_calls`` returned for it. Returns
        the rates once they cover enough time, else None."""
        for key, calls in zip(counts.keys, counts.calls.tolist(), strict=True):
            symbol = SYMBOL_OF.get(key.operation)
            if symbol is not None:
                self._calls.setdefault((key.tgid, symbol), [0.0, 0.0])[key.nested] += calls
        for pid, calls in extra.items():
            # Outermost calls say how busy a process is, which these would distort.
            self._calls.setdefault((pid, PAUSES), [0.0, 0.0])[1] += calls
        self._seconds += seconds
        if self._seconds < LEAST_SECONDS:
            return None
        rates: dict[int, dict[str, Rate]] = {}
        for (pid, symbol), (outermost, nested) in self._calls.items():
            found = rates.setdefault(pid, {})
            found[symbol] = Rate(outermost / self._seconds, nested / self._seconds)
        self.forget()
        return rates


def calls_by_process(counts: Counts, extra: Mapping[int, float]) -> dict[int, float]:
    """Returns the number of calls of each process in a window, with its ``extra`` calls, by PID."""
    found = dict(extra)
    for key, calls in zip(counts.keys, counts.calls.tolist(), strict=True):
        if key.operation < HOST_GAP:  # not time between calls
            found[key.tgid] = found.get(key.tgid, 0.0) + calls
    return found


def calls_per_s(rates: Iterable[Rate]) -> float:
    """Returns the sum of all calls per second."""
    return sum(rate.calls for rate in rates)
