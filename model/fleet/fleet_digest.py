"""A fleet, or a part of it, condensed: what a screen of ten thousand hosts shows, without their summaries.

Digests of racks are merged to one of the cluster, and those of clusters to one of the fleet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from stalltop.model.fleet.fleet_view import (
    FleetJob,
    FleetProblem,
    FleetTenant,
    FleetView,
    HostLine,
    HostState,
)
from stalltop.model.fleet.grouping import merge_problems, merge_tenants
from stalltop.model.fleet.host_summary import HostAddress, HostSummary

MOST_TENANTS: Final = 2000
"""Maximum number of tenants in a digest, the ones that lose most first."""


@dataclass(frozen=True, slots=True)
class RankedHost:
    """What a host with ranks of a job says, for whoever compares ranks across racks."""

    address: HostAddress
    at: float
    """Unix time of its summary, s, on the server's clock."""
    summary: HostSummary
    """Without tenants and devices."""


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
    """What the hosts of a rack that have ranks said since its last digest. Empty in other digests."""

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
    )
