"""Finds out which communicator in RAS is which one of a process, and how many collectives its rank had
entered before the probes were attached.

The probes have counted collectives since they were attached, RAS since the communicator was made. For the
right communicator, the difference of the two stays the same. RAS is asked while the program runs: the
difference is only known to be between two numbers, which are closer in some answers than in others. So the
answers together tell it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stalltop.probes.maps.communicators import Adoption
from stalltop.probes.nccl_ras.client import RasAnswer


class _Between(NamedTuple):
    """A difference that is at least ``low`` and at most ``high``."""

    low: int
    high: int


class _Candidate(NamedTuple):
    nccl_hash: int
    rank: int
    ranks: int


class ProcessMatching:
    """The communicators of one process that are older than the probes."""

    def __init__(self) -> None:
        self._possible: dict[int, dict[_Candidate, _Between]] = {}
        """By handle: the communicators of RAS that it may be, with the possible differences."""

    def take(self, answer: RasAnswer, pid: int, before: Mapping[int, int], after: Mapping[int, int]) -> None:
        """Takes an answer of RAS. ``pid``: the process in its own PID namespace. ``before`` and ``after``
        are the numbers of collectives, by handle, that the probes had counted when RAS was asked and when it
        had answered."""
        counted = {
            _Candidate(one.hash, rank.rank, one.size): rank.collectives
            for one in answer.communicators
            for rank in one.ranks
            if rank.pid == pid and rank.host in answer.addresses
        }
        for handle in before.keys() & after.keys():
            found = {}
            known = self._possible.get(handle)
            for candidate, count in counted.items():
                low, high = max(count - after[handle], 0), count - before[handle]
                if known is not None:
                    if candidate not in known:
                        continue
                    low, high = max(low, known[candidate].low), min(high, known[candidate].high)
                if low <= high:
                    found[candidate] = _Between(low, high)
            self._possible[handle] = found

    def certain(self) -> dict[int, Adoption]:
        """Returns, by handle, what is certain."""
        found = {}
        for handle, possible in self._possible.items():
            others = {
                candidate for other, those in self._possible.items() if other != handle for candidate in those
            }
            # With one candidate left for this handle, and this handle alone for it, nothing else is possible.
            if len(possible) != 1:
                continue
            ((candidate, between),) = possible.items()
            if candidate not in others and between.low == between.high:
                found[handle] = Adoption(*candidate, between.low)
        return found
