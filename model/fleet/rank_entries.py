"""How late each rank of a running job enters its collectives, compared across hosts.

Every host says when its ranks entered some collectives, and all hosts choose the same ones
(``model.hosts.collectives``). The ranks that entered a collective early wait for the last one. A rank is late
if the others wait for it in most of their waiting, again and again.

Times are those of the hosts' clocks. They are compared on the clock of the NATS server (``host_clock``) or,
if that is more exact, as they are: time servers synchronise the clocks of most hosts, and the Linux kernel
states by how much each may be wrong. A rank is called late only if it is late by clearly more than the clocks
may be wrong. Entries are what programs do: a slow GPU behind programs that run ahead of it is not seen here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from types import MappingProxyType
from typing import Final, NamedTuple

from stalltop.model.fleet.host_clock import ClockOffset, HostClock
from stalltop.model.fleet.host_summary import HostAddress, HostSummary
from stalltop.model.fleet.job_waits import JobWaits, waits_in
from stalltop.model.hosts.collectives import entries_in

MOST_KEPT: Final = 64
"""Newest collectives of a communicator that are kept: hosts choose about eight a second, so those of 8 s or
more."""
RECENT_SECONDS: Final = 2.0
"""Collectives of this time are compared, so that a rank is called late soon after it has become late."""
LEAST_COMPARED: Final = 6
"""Minimum number of compared collectives. If there are fewer in ``RECENT_SECONDS``, older ones are compared
too."""
LEAST_LATE_SECONDS: Final = 0.003
"""A rank that is late by less, on average, is not called late."""
LEAST_LATE: Final = 4
LEAST_LATE_SHARE: Final = 0.3
LATE_FOR_SECONDS: Final = 1.0
"""A late rank is clearly the last one in at least this number and this share of the compared collectives, and
from the first to the last of them for this long. So one pause of a program, which makes it late for all
collectives of a step, is no reason to call it late."""
WAITING_SHARE: Final = 0.6
"""The others wait for it in at least this share of all their waiting for a last rank."""
HELD_SECONDS: Final = 3.0
"""A rank stays late for this long after it was last found to be: some causes make it late in some steps
only."""
APART: Final = 4.0
"""It is late by this factor more than the other ranks usually are among themselves: on busy hosts, all ranks
are late in turn."""
TWO_RANKS: Final = 1.4
"""What `_usual` takes, of two ranks, of the mean deviation in the half of the collectives with the least
lateness. Simulated with exponential delays of both: nobody was called late in 648 looks, in which 378 were
without this, and a rank that is late in every other step still is in five of six."""
CLEARLY: Final = 2.0
"""It is late by this factor more than the clocks may be wrong."""


class LateRank(NamedTuple):
    """The rank for which the others of a running job wait."""

    rank: int
    seconds: float
    """By how much it is late per collective, on average."""
    error_seconds: float
    """Possible error of that, from the clocks of the hosts."""
    waiting_share: float
    """Share of the waiting for a last rank that was for this one, 0 to 1."""


class Arrivals(NamedTuple):
    """How the ranks of a running job entered its newest collectives."""

    late_seconds: Mapping[int, float]
    """By rank: the mean time from the median of the other ranks to its own entry, s; negative if it is
    early. Ranks that cannot be compared are missing."""
    late: LateRank | None
    """The rank for which the others wait; None if there is none."""
    median_late_seconds: Mapping[int, float] = MappingProxyType({})
    """As ``late_seconds``, but the median over the collectives: one pause of a rank does not change it."""
    waits: JobWaits = JobWaits()
    error_seconds: float = 0.0
    """By how much the entries of two ranks may be wrong relative to each other, at most."""


UNKNOWN_ARRIVALS: Final = Arrivals({}, None)


@dataclass(slots=True)
class _Communicator:
    places: dict[int, HostAddress] = field(default_factory=dict)
    """By rank."""
    entries: OrderedDict[int, dict[int, float]] = field(default_factory=OrderedDict)
    """By collective and rank: Unix time on the clock of the rank's host, s."""
    late: LateRank | None = None
    """The rank that was late last."""
    late_at: float = 0.0
    """When it was, by the newest entry that was compared, Unix time, s."""


@dataclass(slots=True)
class _Clocks:
    """What is known about the clock of one host."""

    by_server: HostClock = field(default_factory=HostClock)
    by_time_server: ClockOffset | None = None


class RankEntries:
    """The newest entries of all ranks. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, _Communicator] = {}
        self._clocks: dict[HostAddress, _Clocks] = {}
        """Clocks of hosts that have ranks."""

    def take(self, address: HostAddress, summary: HostSummary, at: float) -> None:
        """Takes the entries of a host's ranks. The server received the summary at ``at``, by its clock."""
        if not summary.ranks:
            self._clocks.pop(address, None)
            return
        clocks = self._clocks.setdefault(address, _Clocks())
        error = summary.clock_error_ns
        clocks.by_time_server = None if error < 0 else ClockOffset(0.0, error / 1e9)
        if summary.round_trip_ns >= 0 and clocks.by_server.take(
            summary.sent, at, summary.round_trip_ns / 1e9
        ):
            self._forget_times(address)
        for one in summary.ranks:
            known = self._known.setdefault(one.communicator, _Communicator())
            known.places[one.rank] = address
            for number, time in entries_in(one.entries):
                known.entries.setdefault(number, {})[one.rank] = time
            while len(known.entries) > MOST_KEPT:
                known.entries.popitem(last=False)

    def _forget_times(self, address: HostAddress) -> None:
        """Forgets when the ranks of a host entered collectives: its clock was another one then."""
        for known in self._known.values():
            ranks = {rank for rank, place in known.places.items() if place == address}
            for times in known.entries.values():
                for rank in ranks & times.keys():
                    del times[rank]

    def forget(self, address: HostAddress) -> None:
        """Forgets the clock of a host."""
        self._clocks.pop(address, None)

    def keep(self, communicators: Iterable[str]) -> None:
        """Forgets all other communicators."""
        for gone in self._known.keys() - set(communicators):
            del self._known[gone]

    def arrivals(self, communicator: str) -> Arrivals:
        """Returns how the ranks of ``communicator`` entered its newest collectives."""
        known = self._known.get(communicator)
        if known is None:
            return UNKNOWN_ARRIVALS
        offsets = self._offsets(known)
        compared = _compared(known, offsets)
        if len(compared) < LEAST_COMPARED:
            return UNKNOWN_ARRIVALS
        late: dict[int, list[float]] = {}
        for times in compared:
            for rank, seconds in _lateness(times).items():
                late.setdefault(rank, []).append(seconds)
        means = {rank: fmean(found) for rank, found in late.items()}
        newest = max(compared[0].values())
        found = _late(compared, means, offsets, known.places)
        if found is not None:
            known.late, known.late_at = found, newest
        elif known.late is not None and abs(newest - known.late_at) > HELD_SECONDS:
            known.late = None
        return Arrivals(
            means,
            known.late,
            {rank: median(found) for rank, found in late.items()},
            waits_in(compared[::-1]),
            _largest_error({known.places[rank]: offsets[rank].error for rank in means}),
        )

    def _offsets(self, known: _Communicator) -> dict[int, ClockOffset]:
        """Returns the clocks of the ranks, all relative to one clock: that of the NATS server, or the one
        that time servers distribute; the one by which more ranks can be compared, or with less error."""
        hosts = set(known.places.values())
        if len(hosts) == 1:
            return dict.fromkeys(known.places, ClockOffset(0.0, 0.0))
        by_server, by_time_server = dict[HostAddress, ClockOffset](), dict[HostAddress, ClockOffset]()
        for host in hosts:
            clocks = self._clocks.get(host, _Clocks())
            if (offset := clocks.by_server.offset) is not None:
                by_server[host] = offset
            if clocks.by_time_server is not None:
                by_time_server[host] = clocks.by_time_server

        def worth(found: Mapping[HostAddress, ClockOffset]) -> tuple[int, float]:
            return len(found), -max((offset.error for offset in found.values()), default=0.0)

        best = max(by_server, by_time_server, key=worth)
        return {rank: best[host] for rank, host in known.places.items() if host in best}


def _compared(known: _Communicator, offsets: Mapping[int, ClockOffset]) -> list[dict[int, float]]:
    """Returns the newest collectives that all ranks with a known clock have entered: times of entry by rank,
    on one clock, s. Ranks of which nothing has come lately are left out."""
    collectives = [
        {rank: time - offsets[rank].ahead for rank, time in known.entries[number].items() if rank in offsets}
        for number in sorted(known.entries, reverse=True)
    ]
    newest = max((time for times in collectives for time in times.values()), default=0.0)
    since = newest - RECENT_SECONDS
    ranks = {rank for times in collectives for rank, time in times.items() if time >= since}
    found: list[dict[int, float]] = []
    for times in collectives:
        if len(ranks) < 2 or not ranks <= times.keys():
            continue
        if max(times.values()) < since and len(found) >= LEAST_COMPARED:
            break
        found.append({rank: times[rank] for rank in ranks})
    return found


def _lateness(times: Mapping[int, float]) -> dict[int, float]:
    """Returns the time from the median of the other ranks to the entry of each rank, s."""
    order = sorted(times, key=lambda rank: times[rank])
    entries = [times[rank] for rank in order]
    return {rank: entries[at] - _median_without(entries, at) for at, rank in enumerate(order)}


def _median_without(values: Sequence[float], at: int) -> float:
    """Returns the median of sorted ``values``, at least two, without the one at ``at``."""
    middle, odd = divmod(len(values) - 1, 2)

    def other(number: int) -> float:
        return values[number if number < at else number + 1]

    return other(middle) if odd else (other(middle - 1) + other(middle)) / 2


def _largest_error(errors: Mapping[HostAddress, float]) -> float:
    """Returns the largest error of the difference of two clocks, s. ``errors``: of the clock of each host."""
    return sum(sorted(errors.values())[-2:]) if len(errors) > 1 else 0.0


def _usual(compared: list[dict[int, float]], late: int) -> float:
    """Returns the mean time, s, between the entry of a rank and the median of all ranks but ``late``.

    Of two ranks there is only one other. Then, returns how much the lateness of ``late`` varies from one
    collective to the next where it is small: it may be late in some steps only.
    """
    if len(compared[0]) == 2:
        lateness = sorted(_lateness(times)[late] for times in compared)
        lower = lateness[: (len(lateness) + 1) // 2]
        middle = median(lower)
        return TWO_RANKS * fmean(abs(one - middle) for one in lower)
    found: list[float] = []
    for times in compared:
        others = [time for rank, time in times.items() if rank != late]
        middle = median(others)
        found += [abs(time - middle) for time in others]
    return fmean(found)


class _Wait(NamedTuple):
    at: float
    seconds: float
    """From the entry of the last rank but one to that of the last one."""


def _late(
    compared: list[dict[int, float]],
    means: Mapping[int, float],
    offsets: Mapping[int, ClockOffset],
    places: Mapping[int, HostAddress],
) -> LateRank | None:
    waits: dict[int, list[_Wait]] = {}
    for times in compared:
        second, last = sorted((time, rank) for rank, time in times.items())[-2:]
        waits.setdefault(last[1], []).append(_Wait(last[0], last[0] - second[0]))
    waiting = {rank: sum(wait.seconds for wait in found) for rank, found in waits.items()}
    rank = max(waiting, key=lambda one: waiting[one])
    error = max(
        0.0 if places[one] == places[rank] else offsets[rank].error + offsets[one].error for one in means
    )
    least = max(LEAST_LATE_SECONDS, CLEARLY * error, APART * _usual(compared, rank))
    clearly = [wait.at for wait in waits[rank] if wait.seconds >= least]
    whole = sum(waiting.values())
    share = waiting[rank] / whole if whole > 0 else 0.0
    if means[rank] < least or share < WAITING_SHARE:
        return None
    if len(clearly) < max(LEAST_LATE, LEAST_LATE_SHARE * len(compared)):
        return None
    if max(clearly) - min(clearly) < LATE_FOR_SECONDS:
        return None
    return LateRank(rank, means[rank], error, share)
