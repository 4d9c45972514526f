"""Runs one trial: makes the rank of one host late, and notes what the fleet says about the job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final

from bench.stragglers.hosts import TENANTS, JobHost, SpreadJob
from bench.stragglers.injections import INJECTIONS, Injection
from stalltop.fleet.watch import FleetWatch
from stalltop.formats.text.fleet import job_line
from stalltop.model.errors import StalltopError
from stalltop.model.fleet.fleet_view import FleetJob
from stalltop.model.fleet.host_summary import ProblemSummary

WATCH_SECONDS: Final = 8.0
"""Time for which a trial goes on after the injection."""
CALM_SECONDS: Final = 6.0
"""Least time without a late rank before the injection."""
_CALM_WITHIN: Final = 45.0
_GLANCE_SECONDS: Final = 0.1
_PREPARED_SECONDS: Final = 3.0


@dataclass(slots=True)
class StragglerOutcome:
    """Result of one trial."""

    fault: str
    host: int
    """The host with the fault, from 0. Its rank has this number."""
    seed: int
    told: int | None = None
    """The rank that was called late first; None if none was."""
    told_seconds: float | None = None
    """Time from the injection until the right rank was called late."""
    cause: str = ""
    """The cause that was told with the right rank at the end of the trial; '' if none was."""
    culprit: str = ""
    cause_seconds: float | None = None
    """Time from the injection until the right rank was called late for the right cause and culprit."""
    cause_right: bool = False
    """Whether cause and culprit were right at the end of the trial."""
    late_ms: float = 0.0
    error_ms: float = 0.0
    """Possible error of ``late_ms``, from the clocks."""
    said: str = ""
    """The line about the job at the end of the trial."""
    alarms: list[str] = field(default_factory=list)
    """Lines about a late rank in the calm time before the injection, except those that name a program outside
    of the hosts."""
    calm_seconds: float = 0.0
    error: str = ""
    disturbed: bool = False
    """Whether, at the end of the trial, the problem that was told names a program outside of the hosts: they
    are parts of a machine on which others work. Such a trial does not count."""

    @property
    def rank_right(self) -> bool:
        """Whether the first rank that was called late was the right one."""
        return self.told == self.host


def run_trial(job: SpreadJob, watch: FleetWatch, fault: str, seed: int) -> StragglerOutcome:
    """Injects ``fault`` into one host. Raises StalltopError if the job does not run, or never gets calm."""
    chance = Random(seed)
    host = chance.choice(job.hosts)
    injection = INJECTIONS[fault]
    outcome = StragglerOutcome(fault, host.number, seed)
    with _prepared(injection, host):
        await_calm(watch)
        until = time.monotonic() + CALM_SECONDS / 2 + chance.random()
        outcome.calm_seconds = until - time.monotonic()
        outcome.alarms = alarms_until(watch, until)
        with ExitStack() as end:
            injected = time.monotonic()
            injection.begin(host, chance, end)
            _watch(watch, outcome, injection, host, injected)
    return outcome


def _watch(
    watch: FleetWatch, outcome: StragglerOutcome, injection: Injection, host: JobHost, injected: float
) -> None:
    while time.monotonic() < injected + WATCH_SECONDS:
        time.sleep(_GLANCE_SECONDS)
        job = job_of(watch)
        after = time.monotonic() - injected
        late = job.late[0] if job.late else None
        outcome.cause_right = outcome.disturbed = False
        outcome.said = job_line(job)
        if late is None:
            continue
        if outcome.told is None:
            outcome.told = late.rank
        if late.address != host.address:
            continue
        if outcome.told_seconds is None:
            outcome.told_seconds = after
        outcome.late_ms, outcome.error_ms = job.late_seconds * 1e3, job.late_error_seconds * 1e3
        problem = late.problem
        outcome.cause, outcome.culprit = ("", "") if problem is None else (problem.cause, problem.culprit)
        outcome.cause_right = outcome.cause in injection.causes and (
            outcome.culprit == host.neighbour.name
            if injection.neighbour
            else outcome.culprit not in {place.name for place in host.places if place is not host.trainer}
        )
        outcome.disturbed = problem is not None and is_outside(problem)
        if outcome.cause_right and outcome.cause_seconds is None:
            outcome.cause_seconds = after


@contextmanager
def _prepared(injection: Injection, host: JobHost) -> Iterator[None]:
    injection.prepare(host)
    try:
        yield
    finally:
        injection.restore(host)


def job_of(watch: FleetWatch) -> FleetJob:
    """Returns the job as the fleet sees it. Raises StalltopError if it sees none."""
    job = next(iter(watch.view().jobs), None)
    if job is None:
        raise StalltopError("the fleet sees no job")
    return job


def await_calm(watch: FleetWatch) -> None:
    """Waits until no rank has been late for ``CALM_SECONDS``. Raises StalltopError if that takes too long."""
    began = calm = time.monotonic()
    while time.monotonic() < calm + CALM_SECONDS / 2:
        time.sleep(_GLANCE_SECONDS)
        jobs = watch.view().jobs
        compared = jobs and all(rank.late_seconds is not None for rank in jobs[0].ranks)
        if not compared or jobs[0].late or jobs[0].stands_seconds:
            calm = time.monotonic()
        if time.monotonic() > began + _CALM_WITHIN:
            said = job_line(jobs[0]) if jobs else "no job"
            raise StalltopError(f"the job did not get calm within {_CALM_WITHIN:g} s: {said}")


def is_outside(problem: ProblemSummary) -> bool:
    """Returns whether ``problem`` names a culprit that is a program outside of the hosts."""
    return bool(problem.culprit) and problem.culprit.partition(" of node-")[0] not in TENANTS


def alarms_until(watch: FleetWatch, until: float) -> list[str]:
    """Returns the lines about late ranks that the fleet shows until then, each rank and problem once, except
    those that name a program outside of the hosts."""
    found: dict[tuple[int, str], str] = {}
    while time.monotonic() < until:
        time.sleep(_GLANCE_SECONDS)
        job = job_of(watch)
        for rank in job.late:
            problem = rank.problem
            if problem is None or not is_outside(problem):
                found.setdefault((rank.rank, "" if problem is None else problem.id), job_line(job))
    return list(found.values())
