"""Attributes the waits between the ranks of a job to the rank that is late."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from stalltop.diagnosis.attribution.losses import Losses, Wait

CAUSE: Final = "late_rank"


class RankWaits:
    """Waits of ranks for other ranks in one window.

    They are attributed together. Of two ranks that exchange data, each waits for the other in some steps,
    because the lengths of their steps vary. Only the difference between both waits shows which rank is late.
    """

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._waits: defaultdict[tuple[int, int], list[tuple[Wait, str, float]]] = defaultdict(list)
        """Waits by two PIDs: of the rank that waits, and of the rank that it waits for. Each element has the
        wait, the part of the split in which the other rank spent this time, and the ns."""

    def add(self, wait: Wait, part: str, ns: float) -> None:
        """Adds ``ns`` of a wait for the rank that ends the path of ``wait``. That rank spent the time in
        ``part`` of its split."""
        if ns > 0:
            self._waits[wait.victim.pid, wait.path[-1].pid].append((wait, part, ns))

    def settle(self) -> None:
        """Attributes the waits. Called after all of them were added."""
        sums = {pair: sum(ns for _, _, ns in waits) for pair, waits in self._waits.items()}
        for (pid, other), waits in self._waits.items():
            rest = 1.0 - sums.get((other, pid), 0.0) / sums[pid, other]
            for wait, part, ns in waits:
                self._losses.add(CAUSE, wait, part, ns * rest, {wait.path[-1]: ns * rest})
