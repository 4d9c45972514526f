"""Groups the problems and the tenants of hosts, and merges groups: those of a rack with those of others."""

from __future__ import annotations

from collections.abc import Iterable

from stalltop.model.chain import SEVERITIES, loss_step
from stalltop.model.fleet.fleet_view import FleetHost, FleetProblem, FleetTenant
from stalltop.model.text.words import SEVERAL


def problems_of(host: FleetHost) -> list[FleetProblem]:
    """Returns the problems of one host, one group each. The number of a culprit's processes is left out of
    its name, so that hosts share groups."""
    assert host.summary is not None
    return [
        FleetProblem(
            one.cause,
            one.title,
            one.severity,
            one.culprit_namespace,
            SEVERAL.sub("", one.culprit),
            (host.address,),
            (one.victim,) if one.victim else (),
            one.lost_ms_per_s,
            one.lost_ms_per_s,
            one.since,
            one.summary,
            one.fix,
        )
        for one in host.summary.problems
    ]


def merge_problems(parts: Iterable[FleetProblem]) -> tuple[FleetProblem, ...]:
    """Merges groups of one cause and culprit, and returns them, the worst first. Without a culprit, problems
    of one cause are one group."""
    groups: dict[tuple[str, str, str], list[FleetProblem]] = {}
    for one in parts:
        groups.setdefault((one.cause, one.culprit_namespace, one.culprit), []).append(one)
    found = []
    for (cause, namespace, culprit), group in groups.items():
        group.sort(key=lambda one: (-one.worst_ms_per_s, one.hosts))
        worst = group[0]
        found.append(
            FleetProblem(
                cause,
                worst.title,
                min((one.severity for one in group), key=SEVERITIES.index),
                namespace,
                culprit,
                tuple(dict.fromkeys(host for one in group for host in one.hosts)),
                tuple(dict.fromkeys(victim for one in group for victim in one.victims)),
                sum(one.lost_ms_per_s for one in group),
                worst.worst_ms_per_s,
                min(one.since for one in group),
                worst.summary,
                worst.fix,
            )
        )
    return tuple(sorted(found, key=_worst_problem_first))


def _worst_problem_first(problem: FleetProblem) -> tuple[int, int, float, str, str]:
    lost = -loss_step(problem.lost_ms_per_s)
    return SEVERITIES.index(problem.severity), lost, problem.since, problem.cause, problem.culprit


def tenants_of(host: FleetHost) -> list[FleetTenant]:
    """Returns the tenants of one host."""
    summary = host.summary
    assert summary is not None
    seconds = summary.seconds
    return [
        FleetTenant(
            one.namespace,
            one.name,
            1,
            one.calls / seconds,
            one.total_ns / seconds / 1e9,
            one.p99_ns,
            host.address,
            one.lost_ms_per_s,
        )
        for one in summary.tenants
    ]


def merge_tenants(parts: Iterable[FleetTenant]) -> tuple[FleetTenant, ...]:
    """Merges tenants of one namespace and name, and returns them: first those that lose most."""
    groups: dict[tuple[str, str], list[FleetTenant]] = {}
    for one in parts:
        groups.setdefault((one.namespace, one.name), []).append(one)
    found = []
    for (namespace, name), group in groups.items():
        slowest = max(group, key=lambda one: one.worst_p99_ns)
        found.append(
            FleetTenant(
                namespace,
                name,
                sum(one.hosts for one in group),
                sum(one.calls_per_s for one in group),
                sum(one.busy for one in group),
                slowest.worst_p99_ns,
                slowest.worst_host,
                sum(one.lost_ms_per_s for one in group),
            )
        )
    return tuple(sorted(found, key=lambda one: (-loss_step(one.lost_ms_per_s), -one.busy, one.name)))
