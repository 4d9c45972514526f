"""Jobs across hosts: the ranks of one NCCL communicator, and for which rank a job that stands waits.

All ranks of a communicator enter the same collectives in the same order. While a job stands, the counts of
entered collectives do not change. They can then be compared between hosts without a common clock: the ranks
that have entered fewest are those for which the others wait. While a job runs, counts that were read at
different moments differ anyway; times of entries are compared instead (``rank_entries``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from stalltop.model.fleet.fleet_view import FleetHost, FleetJob, FleetRank
from stalltop.model.fleet.host_summary import ProblemSummary, RankSummary
from stalltop.model.fleet.likeness import DeviceSamples, RankDevice
from stalltop.model.fleet.rank_entries import Arrivals, RankEntries

STANDS_SECONDS: Final = 3.0
"""A job stands if none of its ranks has entered a collective for this long: at least two windows of a
second."""
_DIGITS: Final = 6
"""Decimals of times of ranks, s: hosts tell entries in µs. More would make messages longer."""


def jobs_of(hosts: Iterable[FleetHost], entries: RankEntries, devices: DeviceSamples) -> tuple[FleetJob, ...]:
    """Returns the jobs of ``hosts``: those that stand first, then those that wait for a late rank, then by
    size. ``entries`` has the entries of their ranks, ``devices`` the figures of their GPUs."""
    groups: dict[str, list[tuple[FleetHost, RankSummary]]] = {}
    for host in hosts:
        for one in host.summary.ranks if host.summary is not None else ():
            groups.setdefault(one.communicator, []).append((host, one))
    found = [_job(communicator, group, entries, devices) for communicator, group in groups.items()]
    return tuple(
        sorted(found, key=lambda job: (-job.stands_seconds, -job.late_seconds, -job.size, job.communicator))
    )


def _job(
    communicator: str,
    group: list[tuple[FleetHost, RankSummary]],
    entries: RankEntries,
    devices: DeviceSamples,
) -> FleetJob:
    by_rank: dict[int, tuple[FleetHost, RankSummary]] = {}
    for host, one in group:
        # A rank that moved to another host is still in the last summary of the old one.
        if one.rank not in by_rank or host.at > by_rank[one.rank][0].at:
            by_rank[one.rank] = host, one
    arrivals = entries.arrivals(communicator)
    ranks = tuple(_rank(host, one, arrivals) for _, (host, one) in sorted(by_rank.items()))
    _, first = next(iter(by_rank.values()))
    stands, late = _waiting_for(ranks)
    waits = arrivals.waits
    gpus = [
        RankDevice(host.address, one.device, one.rank)
        for host, one in by_rank.values()
        if one.device and host.state == "live"
    ]
    job = FleetJob(
        *(communicator, first.namespace, first.tenant, first.ranks, ranks, stands, late),
        nccl_hashes=first.nccl_hashes,
        compared=waits.collectives,
        compared_seconds=round(waits.seconds, _DIGITS),
        compared_error_seconds=round(arrivals.error_seconds, _DIGITS),
        lost_rank_seconds=round(waits.lost_rank_seconds, _DIGITS),
        waits_for=tuple(one._replace(rank_seconds=round(one.rank_seconds, _DIGITS)) for one in waits.last),
        unlike=devices.unlike(gpus),
    )
    found = None if late else arrivals.late
    straggler = tuple(rank for rank in ranks if rank.live and found is not None and rank.rank == found.rank)
    if found is None or not straggler:
        return job
    return replace(
        job,
        late=straggler,
        late_seconds=found.seconds,
        late_error_seconds=found.error_seconds,
        waiting_share=found.waiting_share,
    )


def _rank(host: FleetHost, one: RankSummary, arrivals: Arrivals) -> FleetRank:
    live = host.state == "live"
    problem = _problem_of(host, one) if live else None
    since = one.since_entry_ns / 1e9
    return FleetRank(
        *(one.rank, host.address, one.pid, one.process, live, one.entered, since, problem),
        late_seconds=_rounded(arrivals.late_seconds.get(one.rank)),
        median_late_seconds=_rounded(arrivals.median_late_seconds.get(one.rank)),
        waited_seconds=_rounded(arrivals.waits.waited_seconds.get(one.rank)),
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, _DIGITS)


def _problem_of(host: FleetHost, rank: RankSummary) -> ProblemSummary | None:
    """Returns the worst problem of the rank's tenant or of its GPU, but not that it is late: the cause of
    that is wanted."""
    assert host.summary is not None

    def concerns(one: ProblemSummary) -> bool:
        if one.cause.startswith("nccl"):
            return False
        of_tenant = (one.namespace, one.victim) == (rank.namespace, rank.tenant)
        # Problems name a device as a person does; a rank has its label.
        return of_tenant or (rank.device != "" and one.device == f"GPU {rank.device}")

    return next(filter(concerns, host.summary.problems), None)


def _waiting_for(ranks: tuple[FleetRank, ...]) -> tuple[float, tuple[FleetRank, ...]]:
    """Returns for how long the job stands, and the ranks for which the others wait."""
    live = [rank for rank in ranks if rank.live]
    if len(live) < 2:
        return 0.0, ()
    stands = min(rank.since_entry_seconds for rank in live)
    fewest, most = min(rank.entered for rank in live), max(rank.entered for rank in live)
    if stands < STANDS_SECONDS or fewest == most:
        return 0.0, ()
    return stands, tuple(rank for rank in live if rank.entered == fewest)
