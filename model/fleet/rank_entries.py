"""How late each rank of a running job enters its collectives, compared across hosts.

Every host says when its ranks entered some collectives, and all hosts choose the same ones
(``model.hosts.collectives``). A rank is late by the time from the median of the other ranks to its own entry.

Times are those of the hosts' clocks, which time servers synchronise. The Linux kernel states by how much each
may be wrong; a rank is called late only if it is late by clearly more than that. Without such a statement,
ranks of different hosts are not compared. Entries are what programs do: a slow GPU behind programs that run
ahead of it is not seen here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Final, NamedTuple

from stalltop.model.fleet.host_summary import HostAddress, HostSummary
from stalltop.model.hosts.collectives import entries_in

MOST_KEPT: Final = 64
"""Newest collectives of a communicator that are kept: those of about 20 s."""
LEAST_COMPARED: Final = 6
"""Minimum number of compared collectives of a rank."""
LEAST_LATE_SECONDS: Final = 0.002
"""A rank that is late by less, on average, is not called late."""
LAST_SHARE: Final = 0.6
"""A late rank is the last one in at least this share of the compared collectives."""
CLEARLY: Final = 2.0
"""It is late by this factor more than the next one, and than the clocks may be wrong."""


class LateRank(NamedTuple):
    """The rank for which the others of a running job wait."""

    rank: int
    seconds: float
    """By how much it is late per collective, on average."""
    error_seconds: float
    """Possible error of that, from the clocks of the hosts."""


class _RankPlace(NamedTuple):
    address: HostAddress
    clock_error: float | None
    """Possible error of the host's clock, s; None if it is not known."""


@dataclass(slots=True)
class _Communicator:
    places: dict[int, _RankPlace] = field(default_factory=dict)
    """By rank."""
    entries: OrderedDict[int, dict[int, float]] = field(default_factory=OrderedDict)
    """By collective and rank: Unix time, s."""


class RankEntries:
    """The newest entries of all ranks. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, _Communicator] = {}

    def take(self, address: HostAddress, summary: HostSummary) -> None:
        """Takes the entries of a host's ranks."""
        error = None if summary.clock_error_ns < 0 else summary.clock_error_ns / 1e9
        for one in summary.ranks:
            known = self._known.setdefault(one.communicator, _Communicator())
            known.places[one.rank] = _RankPlace(address, error)
            for number, time in entries_in(one.entries):
                known.entries.setdefault(number, {})[one.rank] = time
            while len(known.entries) > MOST_KEPT:
                known.entries.popitem(last=False)

    def keep(self, communicators: Iterable[str]) -> None:
        """Forgets all other communicators."""
        for gone in self._known.keys() - set(communicators):
            del self._known[gone]

    def late(self, communicator: str) -> LateRank | None:
        """Returns the rank for which the others wait; None if there is none, or it cannot be known."""
        known = self._known.get(communicator)
        if known is None:
            return None
        late: dict[int, list[float]] = {}
        last: dict[int, int] = {}
        for times in known.entries.values():
            for rank, time in times.items():
                others = [
                    other for one, other in times.items() if one != rank and _comparable(known, rank, one)
                ]
                if others:
                    late.setdefault(rank, []).append(time - median(others))
                    last[rank] = last.get(rank, 0) + (time > max(others))
        means = {rank: fmean(found) for rank, found in late.items() if len(found) >= LEAST_COMPARED}
        if len(means) < 2:
            return None
        first, second = sorted(means, key=lambda rank: -means[rank])[:2]
        error = max(_error(known, first, one) or 0.0 for one in means if one != first)
        least = max(LEAST_LATE_SECONDS, CLEARLY * error, CLEARLY * means[second])
        if means[first] < least or last[first] < LAST_SHARE * len(late[first]):
            return None
        return LateRank(first, means[first], error)


def _comparable(known: _Communicator, a: int, b: int) -> bool:
    return _error(known, a, b) is not None


def _error(known: _Communicator, a: int, b: int) -> float | None:
    """Returns the possible error of comparing times of two ranks, s; None if it is not known."""
    one, other = known.places[a], known.places[b]
    if one.address == other.address:
        return 0.0
    if one.clock_error is None or other.clock_error is None:
        return None
    return one.clock_error + other.clock_error
