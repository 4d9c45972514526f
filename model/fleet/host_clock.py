"""Estimates how far the clock of a host is ahead of the clock of the NATS server.

A host writes into each summary when it sends it, and how long an answer of the server took just before. The
server notes when it receives the summary. The difference of the two is the offset of the clocks minus the
time that the summary was on its way. This time is never negative, and at least once in some seconds it is no
longer than a round trip. So the offset is between the largest difference of the last seconds and that plus
the shortest round trip.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

KEPT_SECONDS: Final = 20.0
"""Messages of this time are compared. Within it, clocks that differ by 50 ppm drift apart by 1 ms."""
LEAST_MESSAGES: Final = 3
"""Minimum number of messages for an estimate."""
STEP_SECONDS: Final = 0.5
"""A difference that changes by more than this means that the clock was set, or that a message was late."""


class ClockOffset(NamedTuple):
    """An estimate."""

    ahead: float
    """By how many seconds the host's clock is ahead of the server's."""
    error: float
    """By how much ``ahead`` may be wrong, s."""


class _ClockSample(NamedTuple):
    at: float
    ahead: float
    round_trip: float


class HostClock:
    """The clock of one host."""

    def __init__(self) -> None:
        self._samples: deque[_ClockSample] = deque()

    def take(self, sent: float, at: float, round_trip: float) -> bool:
        """Takes a message that the host sent at ``sent`` by its own clock, and that the server received at
        ``at`` by its clock, both Unix times. ``round_trip`` is how long an answer of the server took, s.

        Returns whether the clock was set: times before that are by another clock.
        """
        samples, sample = self._samples, _ClockSample(at, sent - at, round_trip)
        best = self._best
        was_set = best is not None and sample.ahead > best + STEP_SECONDS  # nothing arrives before it is sent
        if was_set:
            samples.clear()
        samples.append(sample)
        while at - samples[0].at > KEPT_SECONDS:
            samples.popleft()
        if best is not None and not was_set:
            newest = list(samples)[-LEAST_MESSAGES:]
            if len(newest) == LEAST_MESSAGES and all(self._doubtful(one) for one in newest):
                # So many messages in a row are not late by chance.
                was_set = True
                samples.clear()
                samples.extend(newest)
        return was_set

    @property
    def offset(self) -> ClockOffset | None:
        """The estimate; None if there are too few messages, or if the newest one contradicts the others."""
        best = self._best
        if best is None or len(self._samples) < LEAST_MESSAGES or self._doubtful(self._samples[-1]):
            return None
        half = min(sample.round_trip for sample in self._samples) / 2
        return ClockOffset(best + half, half)

    @property
    def _best(self) -> float | None:
        return max((sample.ahead for sample in self._samples), default=None)

    def _doubtful(self, sample: _ClockSample) -> bool:
        best = self._best
        return best is not None and sample.ahead < best - STEP_SECONDS
