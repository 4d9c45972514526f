"""Makes the summaries of hosts that run a job together."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from stalltop.model.fleet.fleet_state import FleetState
from stalltop.model.fleet.fleet_view import FleetJob
from stalltop.model.fleet.host_summary import HostSummary
from stalltop.model.hosts.collectives import chosen, entries_text
from tests.unit.model.fleet.summaries import NOW, at, rank, summary

STEP = 0.25
"""Seconds of a step of the job."""
COLLECTIVES = 8
"""Collectives of a step, in its last third."""


@dataclass
class RunningJob:
    """A job with one rank on each host."""

    ranks: int = 8
    late: dict[int, float] = field(default_factory=dict)
    """By how many seconds a rank enters collectives late."""
    clock_error_ns: int = 200_000
    offsets: dict[int, float] = field(default_factory=dict)
    """By how much the clock of a rank's host is ahead, s."""
    round_trip: float = -1e-9
    """How long the server takes to answer the hosts, s; below 0: they do not say it."""
    since: float = 0.0
    """Second from which the ranks of ``late`` are late."""
    every: int = 1
    """They are late in every ``every``-th step."""
    seed: int = 1
    noise: float = 3e-4
    """Mean of the random delays of all entries, s."""

    def __post_init__(self) -> None:
        random = Random(self.seed)
        self.looks = [random.random() for _ in range(self.ranks)]
        """When in a second each host looks."""
        self.times: list[list[float]] = [[] for _ in range(self.ranks)]
        for step in range(round(60 / STEP)):
            for number in range(COLLECTIVES):
                due = step * STEP + STEP * (2 / 3 + number / COLLECTIVES / 3)
                for one in range(self.ranks):
                    is_late = due >= self.since and step % self.every == self.every // 2
                    late = self.late.get(one, 0.0) if is_late else 0.0
                    self.times[one].append(due + random.expovariate(1 / self.noise) + late)

    def summary(self, one: int, now: float, **more: Any) -> HostSummary:
        """Returns what the host of rank ``one`` says at ``now`` seconds of the second before."""
        times, ahead = self.times[one], self.offsets.get(one, 0.0)
        entered, before = (sum(time <= end for time in times) for end in (now, now - 1))
        entries = [(n, round((NOW + times[n] + ahead) * 1e9)) for n in chosen(before, entered)]
        known = rank(one, entered, 0.001)._replace(ranks=self.ranks, entries=entries_text(entries))
        told = {"clock_error_ns": self.clock_error_ns, "round_trip_ns": round(self.round_trip * 1e9)}
        end = NOW + now + ahead
        return summary(end=end, sent=end + 0.01, ranks=(known,), **told, **more)

    def seen(self, seconds: int, **more: Any) -> FleetJob:
        """Returns the job as the fleet sees it after ``seconds``; late ranks' hosts also say ``more``."""
        state = FleetState()
        for second in range(1, seconds + 1):
            for one in range(self.ranks):
                now = second + self.looks[one]
                told = more if one in self.late else {}
                said = self.summary(one, now, **told)
                state.take(at(f"node-{one}"), said, NOW + now + 0.01 + max(self.round_trip, 0.0) / 2)
        (job,) = state.view(NOW + seconds + 1).jobs
        return job
