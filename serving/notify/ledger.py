"""What one receiver was told, and what it must be told next.

Messages are not queued. Each time, what is open is compared with what was told and delivered. So a receiver
that was away gets the present state, a message that failed is due again, and a restart repeats nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from stalltop.model.chain import Severity
from stalltop.serving.notify.alerts import ProblemAlert, is_worse

Change = Literal["opened", "worse", "still", "closed"]
"""``still``: for receivers that forget an alert if it is not repeated."""

CLOSED_SECONDS: Final = 60.0
"""A problem counts as over if it was not open for this long: most that end for a shorter time come back."""
WORSE_SECONDS: Final = 300.0
"""Least time between two messages about a growing loss."""
WORSE_FACTOR: Final = 3.0
"""A loss has grown if it is this many times what was told last."""
MOST_MESSAGES: Final = 10
"""The most messages within ``RATE_SECONDS``; further ones wait. On-call reads no more than one a minute."""
RATE_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class ToldAlert:
    """What a receiver was told last about one alert."""

    severity: Severity
    lost_ms_per_s: float
    since: float
    """Unix time in seconds at which the problem began."""
    at: float
    """Unix time in seconds at which the message was delivered."""
    sentence: str
    """The problem in one sentence."""


@dataclass(frozen=True, slots=True)
class DueMessage:
    """A message for a receiver."""

    id: str
    change: Change
    alert: ProblemAlert | None
    """None if the problem is over."""
    told: ToldAlert | None
    """None if nothing was told yet."""
    waiting: int = 0
    """How many other open problems the receiver does not know, because it gets no more messages for now."""


class Ledger:
    """Decides what one receiver is told. Not thread-safe."""

    def __init__(
        self,
        told: Mapping[str, ToldAlert],
        *,
        severity: Severity,
        seconds: float,
        refresh_seconds: float | None = None,
    ) -> None:
        """``told``: what was delivered in earlier runs, by the id of the alert. ``severity``: the least that
        is told. ``seconds``: how long a problem must last. ``refresh_seconds``: after this time, an open
        alert is due again, without a limit of the rate; None: never."""
        self.told = dict(told)
        self._severity = severity
        self._seconds = seconds
        self._refresh = refresh_seconds
        self._gone: dict[str, float] = {}
        """When the told alerts that are not open were first missed."""
        self._sent: deque[float] = deque()

    def due(self, alerts: Sequence[ProblemAlert], now: float) -> list[DueMessage]:
        """Returns what is due at the Unix time ``now``, if ``alerts`` are open; worst first, ends last."""
        found: list[DueMessage] = []
        for alert in alerts:
            self._gone.pop(alert.id, None)
            change = self._change(alert, now)
            if change is not None:
                found.append(DueMessage(alert.id, change, alert, self.told.get(alert.id)))
        opened = {alert.id for alert in alerts}
        for key, told in self.told.items():
            if key not in opened and now - self._gone.setdefault(key, now) >= CLOSED_SECONDS:
                found.append(DueMessage(key, "closed", None, told))
        return found if self._refresh is not None else self._bounded(found, now)

    def _change(self, alert: ProblemAlert, now: float) -> Change | None:
        told = self.told.get(alert.id)
        if told is None:
            lasts = now - alert.since >= self._seconds
            return "opened" if lasts and not is_worse(self._severity, alert.severity) else None
        if is_worse(alert.severity, told.severity):
            return "worse"
        grown = alert.lost_ms_per_s >= WORSE_FACTOR * max(told.lost_ms_per_s, 1.0)
        if grown and now - told.at >= WORSE_SECONDS:
            return "worse"
        return "still" if self._refresh is not None and now - told.at >= self._refresh else None

    def _bounded(self, found: list[DueMessage], now: float) -> list[DueMessage]:
        while self._sent and now - self._sent[0] >= RATE_SECONDS:
            self._sent.popleft()
        free = MOST_MESSAGES - len(self._sent)
        waiting = sum(one.change == "opened" for one in found[free:])
        return [DueMessage(one.id, one.change, one.alert, one.told, waiting) for one in found[:free]]

    def delivered(self, message: DueMessage, sentence: str, now: float) -> None:
        """Notes that the receiver has ``message``."""
        self._sent.append(now)
        if message.alert is None:
            del self.told[message.id]
            del self._gone[message.id]
            return
        alert, before = message.alert, message.told
        severity = alert.severity
        if before is not None and is_worse(before.severity, severity) and self._refresh is None:
            severity = before.severity  # a severity that rises again is no news
        self.told[message.id] = ToldAlert(severity, alert.lost_ms_per_s, alert.since, now, sentence)
