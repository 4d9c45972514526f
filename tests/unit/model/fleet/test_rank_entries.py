"""Tests that the late rank of a running job is found across hosts, and that healthy jobs have none."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from stalltop.formats.text.fleet import job_line
from stalltop.model.fleet.fleet_state import FleetState
from stalltop.model.fleet.fleet_view import FleetJob
from stalltop.model.fleet.host_summary import HostSummary
from stalltop.model.hosts.collectives import chosen, entries_text
from tests.unit.model.fleet.summaries import NOW, at, problem, rank, summary

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
    seed: int = 1

    def __post_init__(self) -> None:
        random = Random(self.seed)
        self.looks = [random.random() for _ in range(self.ranks)]
        """When in a second each host looks."""
        self.times: list[list[float]] = [[] for _ in range(self.ranks)]
        for step in range(round(60 / STEP)):
            for number in range(COLLECTIVES):
                due = step * STEP + STEP * (2 / 3 + number / COLLECTIVES / 3)
                for one in range(self.ranks):
                    self.times[one].append(due + random.expovariate(1 / 3e-4) + self.late.get(one, 0.0))

    def summary(self, one: int, now: float, **more: Any) -> HostSummary:
        """Returns what the host of rank ``one`` says at ``now`` seconds of the second before."""
        times, ahead = self.times[one], self.offsets.get(one, 0.0)
        entered, before = (sum(time <= end for time in times) for end in (now, now - 1))
        entries = [(n, round((NOW + times[n] + ahead) * 1e9)) for n in chosen(before, entered)]
        known = rank(one, entered, 0.001)._replace(ranks=self.ranks, entries=entries_text(entries))
        return summary(end=NOW + now + ahead, ranks=(known,), clock_error_ns=self.clock_error_ns, **more)

    def seen(self, seconds: int, **more: Any) -> FleetJob:
        """Returns the job as the fleet sees it after ``seconds``; late ranks' hosts also say ``more``."""
        state = FleetState()
        for second in range(1, seconds + 1):
            for one in range(self.ranks):
                now = second + self.looks[one]
                told = more if one in self.late else {}
                state.take(at(f"node-{one}"), self.summary(one, now, **told), NOW + now)
        (job,) = state.view(NOW + seconds + 1).jobs
        return job


@pytest.mark.parametrize("late", [0.005, 0.02, 0.04])
@pytest.mark.parametrize("one", [0, 3, 7])
def test_the_late_rank_is_found_within_seconds(one: int, late: float) -> None:
    job = RunningJob(late={one: late}, seed=one).seen(4)
    assert [rank.rank for rank in job.late] == [one]
    assert job.late_seconds == pytest.approx(late, abs=0.001)
    assert job.late_error_seconds == pytest.approx(0.0004)


def test_of_two_ranks_the_late_one_is_found() -> None:
    assert [rank.rank for rank in RunningJob(ranks=2, late={1: 0.01}).seen(6).late] == [1]


def test_it_is_said_with_the_problem_of_its_host() -> None:
    said = "train waits for its data: nightly-backup loads nvme0n1"
    disk = problem("loader_disk", summary=said)
    job = RunningJob(late={5: 0.038}).seen(6, problems=(disk,), problems_in_all=1)
    assert job_line(job).startswith("train waits for rank 5 on node-5, late by 38")
    assert job_line(job).endswith(f"per collective: {said}")
    assert "no known problem" in job_line(RunningJob(late={5: 0.038}).seen(6))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ranks", [2, 8])
def test_a_healthy_job_waits_for_nobody(seed: int, ranks: int) -> None:
    offsets = {one: (Random(seed + one).random() - 0.5) * 3e-4 for one in range(ranks)}
    job = RunningJob(ranks=ranks, offsets=offsets, seed=seed).seen(20)
    assert job.late == ()
    assert job_line(job) == ""


def test_a_clock_that_may_be_wrong_accuses_nobody() -> None:
    assert RunningJob(offsets={2: 0.02}, clock_error_ns=15_000_000).seen(10).late == ()


def test_clocks_that_are_not_synchronised_are_not_compared() -> None:
    assert RunningJob(late={1: 0.05}, clock_error_ns=-1).seen(10).late == ()


def test_two_late_ranks_are_not_one() -> None:
    assert RunningJob(late={1: 0.02, 2: 0.02}).seen(10).late == ()
