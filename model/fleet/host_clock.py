"""Estimates how far the clock of a host is ahead of the clock of the NATS server.

A host writes into each summary when it sends it, and how long an answer of the server took just before. The
server notes when it receives the summary. The difference of the two is the offset of the clocks minus the
time that the summary was on its way. This time is never negative, and at least once in some seconds it is no
longer than a round trip. So the largest difference of the last seconds is the offset, and the shortest round
trip is its error.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

KEPT_SECONDS: Final = 20.0
"""Messages of this time are compared. Within it, clocks that differ by 50 ppm drift apart by 1 ms."""
LEAST_MESSAGES: Final = 3
"""Minimum number of messages for an estimate."""
STEP_SECONDS: Final = 0.5
"""If a difference changes by more than this, the clock was set, or a message was late: earlier messages say
nothing any more."""


class ClockOffset(NamedTuple):
    """An estimate."""

    ahead: float
    """By how many seconds the host's clock is ahead of the server's."""
    error: float
    """By how much ``ahead`` may be wrong, s."""


class _Sample(NamedTuple):
    at: float
    ahead: float
    round_trip: float


class HostClock:
    """The clock of one host."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def take(self, sent: float, at: float, round_trip: float) -> None:
        """Takes a message that the host sent at ``sent`` by its own clock, and that the server received at
        ``at`` by its clock, both Unix times. ``round_trip`` is how long an answer of the server took, s."""
        samples = self._samples
        if samples and abs(samples[-1].ahead - (sent - at)) > STEP_SECONDS:
            samples.clear()
        samples.append(_Sample(at, sent - at, round_trip))
        while at - samples[0].at > KEPT_SECONDS:
            samples.popleft()

    @property
    def offset(self) -> ClockOffset | None:
        """The estimate; None if there are too few messages."""
        if len(self._samples) < LEAST_MESSAGES:
            return None
        return ClockOffset(
            max(sample.ahead for sample in self._samples),
            min(sample.round_trip for sample in self._samples),
        )
