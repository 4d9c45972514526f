"""Attributes waits of ranks of a job for each other: to the one that is late."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from stalltop.diagnosis.host.losses import Losses, Wait

CAUSE: Final = "late_rank"


class RankWaits:
    """Waits of ranks of one window. They are attributed together: while two ranks exchange data, and because
    their steps vary, each waits for the other for about as long. Only the rest shows which one is late."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._waits: defaultdict[tuple[int, int], list[tuple[Wait, str, float]]] = defaultdict(list)
        """By PIDs of the rank that waits and of the other one: the waits, in which part of the other's time,
        ns."""

    def add(self, wait: Wait, part: str, ns: float) -> None:
        """Adds a wait for the last process on its path, which spent ``ns`` in ``part``."""
        self._waits[wait.victim.pid, wait.path[-1].pid].append((wait, part, ns))

    def settle(self) -> None:
        """Attributes the waits, once all are known."""
        sums = {pair: sum(ns for _, _, ns in waits) for pair, waits in self._waits.items()}
        for (pid, other), waits in self._waits.items():
            rest = 1.0 - sums.get((other, pid), 0.0) / sums[pid, other]
            for wait, part, ns in waits:
                self._losses.add(CAUSE, wait, part, ns * rest, {wait.path[-1]: ns * rest})
