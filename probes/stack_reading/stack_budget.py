"""Keeps what stacks cost the traced threads within a budget, by limiting how many are read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from stalltop.probes.maps.kept_calls import SAMPLES_A_SECOND, SLOW_A_SECOND
from stalltop.probes.stacks.layout import SAMPLE_NS

BUDGET: Final = 0.002
"""Share of a core that stacks of the whole host may cost."""
CALLS_BUDGET: Final = BUDGET / 2
"""The most of it that stacks of captured calls may take. Samples have the rest."""
CALL_COST_NS: Final = (1_500, 300)
"""CPU time that the stack of a call costs the thread, ns: without Python frames, and for each of these
(``bench stacks``)."""
SAMPLE_COST_NS: Final = (5_000, 650)
"""The same of a sample: mostly of a thread that leaves its CPU, whose caches hold other data."""
MOST_STACKS: Final = SLOW_A_SECOND + SAMPLES_A_SECOND
"""Number of calls captured a second, at most."""
COARSEST_NS: Final = 256 * SAMPLE_NS
"""Most time of a thread for which one sample stands, ns."""
_ADAPT_SECONDS: Final = 1.0


def no_budget(frames: Iterable[int]) -> None:
    """Does nothing: for readers of stacks without a budget."""


class StackBudget:
    """Chooses the limits. ``most_stacks`` sets how many stacks of captured calls are read a second at most,
    and ``sampled_ns`` the time of a thread for which one sample stands."""

    def __init__(
        self,
        most_stacks: Callable[[int], None],
        sampled_ns: Callable[[int], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_stacks = most_stacks
        self._sampled_ns = sampled_ns
        self._clock = clock
        self._since = clock()
        self._lock = threading.Lock()
        self._calls: list[int] = []
        self._samples: list[int] = []
        self._sample_ns = SAMPLE_NS
        most_stacks(MOST_STACKS)
        sampled_ns(SAMPLE_NS)

    def calls_read(self, frames: Iterable[int]) -> None:
        """Notes that stacks of calls were read; ``frames`` has the number of Python frames of each."""
        with self._lock:
            self._calls += frames

    def samples_read(self, frames: Iterable[int]) -> None:
        """Notes that samples were read; ``frames`` has the number of Python frames of each."""
        with self._lock:
            self._samples += frames

    def keep(self) -> None:
        """Sets the limits by what was read since they were set last, unless that was less than a second ago.
        To be called several times a second."""
        seconds = self._clock() - self._since
        if seconds < _ADAPT_SECONDS:
            return
        with self._lock:
            calls, self._calls = self._calls, []
            samples, self._samples = self._samples, []
        calls_ns = _cost_ns(calls, CALL_COST_NS)
        if calls:
            self._most_stacks(min(int(CALLS_BUDGET * 1e9 * len(calls) / calls_ns), MOST_STACKS))
        allowed_ns = max(BUDGET * 1e9 - calls_ns / seconds, (BUDGET - CALLS_BUDGET) * 1e9)
        wanted = self._sample_ns * _cost_ns(samples, SAMPLE_COST_NS) / seconds / allowed_ns
        sample_ns = int(min(max(wanted, SAMPLE_NS), COARSEST_NS))
        if sample_ns != self._sample_ns:
            self._sampled_ns(sample_ns)
            self._sample_ns = sample_ns
        self._since = self._clock()


def _cost_ns(frames: list[int], cost_ns: tuple[int, int]) -> int:
    """Returns what stacks with these numbers of Python frames cost together."""
    each_ns, frame_ns = cost_ns
    return each_ns * len(frames) + frame_ns * sum(frames)
