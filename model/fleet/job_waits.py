"""Who waits for whom in a running job: the time that ranks lose because another one is later.

The data are the times at which ranks entered the collectives that ``rank_entries`` compares, on one clock. A
rank waits in a collective from its own entry until the entry of the last rank. Programs may enter several
collectives before the last rank enters the first of them; such waits overlap, and each moment counts once a
rank, for the earliest of these collectives. So the loss of R ranks in T seconds is at most (R - 1) * T
rank-seconds. As formulas, with collectives c in order, entries t(r, c), and L(c) = max over r of t(r, c):

    wait(r, c)  = max(0, L(c) - max(t(r, c), L(c - 1)))
    lost        = sum of wait(r, c) over all ranks r and all compared collectives c
    waits for q = sum of wait(r, c) over the collectives c that q entered last

Only a part of the collectives is compared, so the job may lose more than this. Entries are those of the
program on the host: a program that runs far ahead of its GPU loses less than this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class LastRank(NamedTuple):
    """A rank that entered collectives as the last one."""

    rank: int
    times: int
    """Number of compared collectives that it entered last."""
    rank_seconds: float
    """For how long the others waited for it in these, all ranks added up."""


@dataclass(frozen=True, slots=True)
class JobWaits:
    """Who waited for whom in the collectives that were compared."""

    collectives: int = 0
    seconds: float = 0.0
    """From the first entry into the first of them to the last entry into the last one."""
    waited_seconds: Mapping[int, float] = field(default_factory=dict)
    """By rank: for how long it waited for the last one."""
    last: tuple[LastRank, ...] = ()
    """The ranks that entered collectives last. The one for which the others waited longest comes first."""

    @property
    def lost_rank_seconds(self) -> float:
        """For how long all ranks together waited for the last one."""
        return sum(self.waited_seconds.values())


def waits_in(collectives: Sequence[Mapping[int, float]]) -> JobWaits:
    """Returns who waited for whom in ``collectives``, the oldest first: times of entry by rank, on one
    clock, s."""
    if not collectives:
        return JobWaits()
    waited = dict.fromkeys(collectives[0], 0.0)
    times: dict[int, int] = {}
    caused: dict[int, float] = {}
    counted_until = float("-inf")
    for entries in collectives:
        last = max(entries, key=lambda rank: (entries[rank], rank))
        end = entries[last]
        waits = {rank: max(end - max(entry, counted_until), 0.0) for rank, entry in entries.items()}
        for rank, seconds in waits.items():
            waited[rank] = waited.get(rank, 0.0) + seconds
        times[last] = times.get(last, 0) + 1
        caused[last] = caused.get(last, 0.0) + sum(waits.values())
        counted_until = max(counted_until, end)
    found = [LastRank(rank, count, caused[rank]) for rank, count in times.items()]
    seconds = counted_until - min(collectives[0].values())
    return JobWaits(
        len(collectives),
        seconds,
        waited,
        tuple(sorted(found, key=lambda one: (-one.rank_seconds, -one.times, one.rank))),
    )
