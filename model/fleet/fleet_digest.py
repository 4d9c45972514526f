"""A fleet, or a part of it, condensed: what a screen of ten thousand hosts shows, without their summaries.

Digests of racks are merged to one of the cluster, and those of clusters to one of the fleet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from stalltop.model.fleet.fleet_view import (
    FleetJob,
    FleetProblem,
    FleetTenant,
    FleetView,
    HostLine,
    HostState,
    LeftOut,
)
from stalltop.model.fleet.grouping import merge_problems, merge_tenants
from stalltop.model.fleet.host_summary import HostAddress, HostSummary

MOST_TENANTS: Final = 2000
"""Maximum number of tenants in a digest, the ones that lose most first."""
MOST_JOBS: Final = 1000
"""Maximum number of jobs in a digest: those that stand or wait for a late rank, then the largest."""
MOST_JOB_RANKS: Final = 3000
"""Maximum number of ranks of all jobs in a digest together, without those of jobs that are cut. A rank takes
50 bytes, and one with a problem 130; a server accepts messages of 1 MB by default."""
MOST_OF_CUT_JOB: Final = 4
"""Number of ranks, at most, of a job for whose other ranks there is no room."""
MOST_RANKED: Final = 12_000
"""Maximum number of ranks that the hosts in the digest of a rack have together, of about 50 bytes each: a
rack of 250 hosts with 48 ranks."""


@dataclass(frozen=True, slots=True)
class RankedHost:
    """What a host with ranks of a job says, for whoever compares ranks across racks."""

    address: HostAddress
    at: float
    """Unix time of its summary, s, on the server's clock."""
    summary: HostSummary
    """Without tenants, and of its devices only those that its ranks use."""


@dataclass(frozen=True, slots=True)
class FleetDigest:
    """Some hosts at one moment, the worst first."""

    now: float
    """Unix time in seconds, on the server's clock."""
    hosts: tuple[HostLine, ...] = ()
    tenants: tuple[FleetTenant, ...] = ()
    problems: tuple[FleetProblem, ...] = ()
    jobs: tuple[FleetJob, ...] = ()
    """Empty in the digest of a rack: a job may have ranks in other racks."""
    ranked: tuple[RankedHost, ...] = ()
    """What the hosts of a rack that have ranks, or had some until lately, said since its last digest. Empty
    in other digests."""
    jobs_left_out: int = 0
    """Number of jobs that ``jobs`` has no room for."""

    def count(self, state: HostState) -> int:
        """Returns the number of hosts in ``state``."""
        return sum(line.state == state for line in self.hosts)


def digest_of(view: FleetView, ranked: Iterable[RankedHost] = ()) -> FleetDigest:
    """Returns the digest of ``view``. ``ranked``: what its hosts with ranks said since the last digest."""
    lines = tuple(host.line for host in view.hosts)
    tenants = view.tenants[:MOST_TENANTS]
    return FleetDigest(view.now, lines, tenants, view.problems, view.jobs, tuple(ranked))


def merged(digests: Sequence[FleetDigest], jobs: Iterable[FleetJob] | None = None) -> FleetDigest:
    """Merges digests of different hosts. ``jobs`` are those of all ranks; None: those of the digests."""
    if len(digests) == 1 and jobs is None:
        return digests[0]
    found = [job for one in digests for job in one.jobs] if jobs is None else jobs
    return FleetDigest(
        max((one.now for one in digests), default=0.0),
        tuple(sorted((line for one in digests for line in one.hosts), key=attrgetter("urgency"))),
        merge_tenants(one for digest in digests for one in digest.tenants)[:MOST_TENANTS],
        merge_problems(one for digest in digests for one in digest.problems),
        tuple(found),
        jobs_left_out=sum(one.jobs_left_out for one in digests) if jobs is None else 0,
    )


def bounded(digest: FleetDigest) -> FleetDigest:
    """Returns ``digest`` with as many ranks and jobs as a message has room for. A job that is cut keeps the
    ranks for which the others wait, and those that usually arrive last."""
    room, jobs = MOST_JOB_RANKS, []
    for job in digest.jobs[:MOST_JOBS]:
        shown = job if len(job.ranks) <= room else _cut(job)
        room = max(room - len(shown.ranks), 0)
        jobs.append(shown)
    ranked, most = digest.ranked, MOST_RANKED // max(len(digest.ranked), 1)
    if any(len(host.summary.ranks) > most for host in ranked):
        ranked = tuple(
            replace(host, summary=replace(host.summary, ranks=host.summary.ranks[:most])) for host in ranked
        )
    left = digest.jobs_left_out + max(len(digest.jobs) - MOST_JOBS, 0)
    return replace(digest, jobs=tuple(jobs), ranked=ranked, jobs_left_out=left)


def without_jobs(digest: FleetDigest) -> FleetDigest:
    """Returns ``digest`` without jobs and ranks, for which a message has no room. It still has all hosts."""
    return replace(digest, jobs=(), ranked=(), jobs_left_out=digest.jobs_left_out + len(digest.jobs))


def _cut(job: FleetJob) -> FleetJob:
    late = job.late[:MOST_OF_CUT_JOB]
    wanted = list(dict.fromkeys((*late, *reversed(job.order), *job.ranks)))[:MOST_OF_CUT_JOB]
    kept = [rank if rank in late else replace(rank, problem=None) for rank in wanted]
    kept.sort(key=lambda rank: rank.rank)
    cut = replace(job, ranks=tuple(kept), late=late, waits_for=job.waits_for[:MOST_OF_CUT_JOB])
    cut = replace(cut, unlike=job.unlike[:MOST_OF_CUT_JOB])
    hosts = len(job.hosts) - len(cut.hosts)
    return replace(cut, left_out=LeftOut(len(job.ranks) - len(kept), hosts, len(job.late) - len(late)))
