"""The JSON object that ``stalltop fleet --once --json`` prints. docs/fleet.md describes it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from stalltop.formats.text.fleet import fleet_sentence, job_line, unlike_text
from stalltop.model.fleet.fleet_view import FleetHost, FleetJob, FleetProblem, FleetRank, FleetView
from stalltop.model.fleet.host_summary import UNKNOWN, HostAddress, ProblemSummary
from stalltop.model.fleet.likeness import UnlikeDevice
from stalltop.model.text.glyphs import ASCII

SCHEMA: Final = "stalltop.fleet/1"
"""Name and version of the JSON object."""


def fleet_document(view: FleetView) -> dict[str, Any]:
    """Return ``view`` as dicts, lists, strings and numbers, for JSON. None stands for what is not known."""
    return {
        "schema": SCHEMA,
        "time": view.now,
        "hosts": [_host(host) for host in view.hosts],
        "tenants": [asdict(tenant) | {"worst_host": _address(tenant.worst_host)} for tenant in view.tenants],
        "problems": [_fleet_problem(problem) for problem in view.problems],
        "jobs": [_job(job) for job in view.jobs],
    }


def _address(address: HostAddress) -> dict[str, str]:
    return address._asdict()


def _known(value: float) -> float | None:
    return None if value == UNKNOWN else value


def _host(host: FleetHost) -> dict[str, Any]:
    summary = host.summary
    return {
        **_address(host.address),
        "state": host.state,
        "seen": host.at,
        "clock_ahead_seconds": host.clock_ahead,
        "remarks": list(host.remarks),
        "calls_per_s": host.calls_per_s,
        "lost_ms_per_s": host.lost_ms_per_s,
        "summary": None
        if summary is None
        else {
            "end": summary.end,
            "seconds": summary.seconds,
            "program": summary.program,
            "simulated": summary.simulated,
            "tracing": summary.tracing,
            "calls": summary.calls,
            "lost_calls": summary.lost_calls,
            "cost_percent": summary.cost_percent,
            "cpu_percent": _known(summary.cpu_percent),
            "clock_error_ns": None if summary.clock_error_ns < 0 else summary.clock_error_ns,
            "tenants_in_all": summary.tenants_in_all,
            "problems_in_all": summary.problems_in_all,
            "tenants": [one._asdict() for one in summary.tenants],
            "problems": [_problem(one) for one in summary.problems],
            "devices": [
                {
                    name: _known(value) if isinstance(value, float) else value
                    for name, value in one._asdict().items()
                }
                for one in summary.devices
            ],
            "ranks_in_all": max(summary.ranks_in_all, len(summary.ranks)),
            "ranks_left_out": summary.ranks_left_out,
            "gaps": [one._asdict() for one in summary.gaps],
        },
    }


def _problem(problem: ProblemSummary) -> dict[str, Any]:
    return problem._asdict()


def _fleet_problem(problem: FleetProblem) -> dict[str, Any]:
    said = "".join(text for text, _ in fleet_sentence(problem, ASCII).parts())
    return asdict(problem) | {"sentence": said, "hosts": [_address(host) for host in problem.hosts]}


def _job(job: FleetJob) -> dict[str, Any]:
    return {
        "communicator": job.communicator,
        "nccl_hashes": job.nccl_hashes,
        "namespace": job.namespace,
        "tenant": job.tenant,
        "size": job.size,
        "stands_seconds": job.stands_seconds,
        "late_seconds": job.late_seconds,
        "late_error_seconds": job.late_error_seconds,
        "waiting_share": job.waiting_share,
        "compared_collectives": job.compared,
        "compared_seconds": job.compared_seconds if job.compared else None,
        "compared_error_seconds": job.compared_error_seconds if job.compared else None,
        "lost_rank_seconds": job.lost_rank_seconds if job.compared else None,
        "order": [rank.rank for rank in job.order],
        "waits_for": [one._asdict() for one in job.waits_for],
        "unlike": [_unlike(one) for one in job.unlike],
        "sentence": job_line(job),
        "ranks": [_rank(rank) for rank in job.ranks],
        "late": [rank.rank for rank in job.late],
    }


def _unlike(one: UnlikeDevice) -> dict[str, Any]:
    return {
        **_address(one.address),
        "device": one.device,
        "rank": one.rank,
        "figure": one.figure,
        "value": _known(one.value),
        "usual": _known(one.usual),
        "reasons": one.reasons,
        "compared": one.compared,
        "confidence": "likeness",
        "sentence": unlike_text(one),
    }


def _rank(rank: FleetRank) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        **_address(rank.address),
        "pid": rank.pid,
        "process": rank.process,
        "live": rank.live,
        "entered": rank.entered,
        "since_entry_seconds": rank.since_entry_seconds,
        "late_seconds": rank.late_seconds,
        "median_late_seconds": rank.median_late_seconds,
        "waited_seconds": rank.waited_seconds,
        "problem": None if rank.problem is None else _problem(rank.problem),
    }
