"""Attributes the waits of a job's ranks for each other to the rank that is late."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from stalltop.diagnosis.attribution.losses import Losses, Wait

CAUSE: Final = "late_rank"


class RankWaits:
    """Waits of ranks for each other in one window. They are attributed together: two ranks that exchange data
    wait for each other for about as long, because their steps vary. Only the difference of both waits shows
    which rank is late."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._waits: defaultdict[tuple[int, int], list[tuple[Wait, str, float]]] = defaultdict(list)
        """Waits by the PIDs of the waiting rank and of the other one. Each has the part of the split in which
        the other rank spent the time, and the ns."""

    def add(self, wait: Wait, part: str, ns: float) -> None:
        """Adds ``ns`` of a wait for the last process on the path of ``wait``, which spent this time in
        ``part``."""
        self._waits[wait.victim.pid, wait.path[-1].pid].append((wait, part, ns))

    def settle(self) -> None:
        """Attributes the waits, once all are known."""
        sums = {pair: sum(ns for _, _, ns in waits) for pair, waits in self._waits.items()}
        for (pid, other), waits in self._waits.items():
            rest = 1.0 - sums.get((other, pid), 0.0) / sums[pid, other]
            for wait, part, ns in waits:
                self._losses.add(CAUSE, wait, part, ns * rest, {wait.path[-1]: ns * rest})
