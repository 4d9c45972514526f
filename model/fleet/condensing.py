"""Condenses a window to the summary of its host."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from stalltop.model.chain import OTHERS, Chain, worst_first
from stalltop.model.devices.device import Device
from stalltop.model.evidence import Rank
from stalltop.model.fleet.host_summary import (
    MOST_DEVICES,
    MOST_GAPS,
    MOST_PROBLEMS,
    MOST_RANKS,
    MOST_TENANTS,
    UNKNOWN,
    DeviceSummary,
    HostSummary,
    ProblemSummary,
    RankSummary,
    TenantSummary,
    WindowGap,
)
from stalltop.model.rows.pivot import PERCENTS, pivot
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window

ANOTHER: Final = "another tenant"
"""Name of a culprit of another namespace, in what a namespace may see."""
_P99: Final = PERCENTS.index(99.0)
_NOBODY: Final = Tenant(id="", name="")
_MOST_TEXT: Final = 160
"""Longest sentence in a summary, in characters."""
_PLACE: Final = re.compile(r"in (.+?:\d+)(?=[ ,]|$)")
"""Finds file and line in the text of a link of role ``line``: ``in train.py:88 step, from run.py:4 main``."""


def condensed(
    window: Window, *, program: str = "", session: str = "", gaps: Sequence[WindowGap] = ()
) -> HostSummary:
    """Returns the summary of ``window``, a window of one host."""
    open_chains = sorted((one for one in window.chains if one.open), key=worst_first)
    faults = [one for one in open_chains if one.severity != "info"]
    tenants = _tenants(window, faults)
    system = window.system
    return HostSummary(
        end=window.end,
        seconds=window.seconds,
        program=program,
        session=session,
        simulated=window.simulated,
        tracing=window.coverage.tracing,
        calls=sum(one.calls for one in tenants),
        lost_calls=window.lost,
        lost_ms_per_s=round(sum(one.lost_ms_per_s for one in faults), 1),
        cost_percent=round(window.coverage.cost_percent, 3),
        cpu_percent=UNKNOWN if system is None else round(system.cpu_percent, 1),
        clock_error_ns=-1 if system is None or system.clock_error_ns is None else system.clock_error_ns,
        tenants_in_all=len(tenants),
        problems_in_all=len(faults),
        tenants=tuple(tenants[:MOST_TENANTS]),
        problems=tuple(_problem(one, window) for one in faults[:MOST_PROBLEMS]),
        devices=tuple(_device(one) for one in window.devices.devices[:MOST_DEVICES]),
        ranks=_ranks(window),
        ranks_in_all=len(window.evidence.ranks),
        gaps=tuple(gaps[-MOST_GAPS:]),
    )


def namespaces(summary: HostSummary) -> set[str]:
    """Returns the namespaces of the tenants that ``summary`` names."""
    found = {one.namespace for one in summary.tenants} | {one.namespace for one in summary.problems}
    return (found | {one.namespace for one in summary.ranks}) - {""}


def seen_by(summary: HostSummary, namespace: str) -> HostSummary:
    """Returns the part of ``summary`` that members of ``namespace`` may see: their own tenants, problems and
    ranks, and the GPUs of these ranks. Culprits of other namespaces, and of the host, have no name."""
    tenants = tuple(one for one in summary.tenants if one.namespace == namespace)
    problems = tuple(
        one if one.culprit_namespace == namespace or not one.culprit else _without_culprit(one)
        for one in summary.problems
        if one.namespace == namespace
    )
    ranks = tuple(one for one in summary.ranks if one.namespace == namespace)
    part = replace(summary, ranks=ranks, ranks_in_all=len(ranks))
    return replace(
        part,
        calls=sum(one.calls for one in tenants),
        lost_ms_per_s=round(sum(one.lost_ms_per_s for one in problems), 1),
        tenants_in_all=len(tenants),
        problems_in_all=len(problems),
        tenants=tenants,
        problems=problems,
        devices=part.rank_devices,
    )


def _without_culprit(problem: ProblemSummary) -> ProblemSummary:
    # The sentence and the fix may name the culprit, its cgroup and its process.
    return problem._replace(culprit_namespace="", culprit=ANOTHER, summary=problem.title, fix="")


def _tenants(window: Window, faults: Sequence[Chain]) -> list[TenantSummary]:
    groups = pivot(window, ("container",))
    lost: dict[str, float] = {}
    for one in faults:
        lost[one.tenant] = lost.get(one.tenant, 0.0) + one.lost_ms_per_s
    p99 = groups.percentiles_ns[:, _P99] if len(groups) else ()
    found = []
    for at, (key,) in enumerate(groups.keys):
        tenant = window.tenants.get(key, replace(_NOBODY, id=key, name=key))
        calls, total = int(groups.calls[at]), int(groups.total_ns[at])
        figures = calls, total, int(p99[at]), round(lost.get(key, 0.0), 1)
        found.append(TenantSummary(tenant.namespace, tenant.name, tenant.kind, *figures))
    return sorted(found, key=lambda one: (-one.lost_ms_per_s, -one.total_ns, one.name))


def _problem(chain: Chain, window: Window) -> ProblemSummary:
    victim = window.tenants.get(chain.tenant, _NOBODY)
    culprit, by, device = _NOBODY, "", ""
    for link in chain.culprits[:1]:
        culprit = window.tenants.get(link.tenant, _NOBODY)
        by, device = culprit.name or ("" if link.process == OTHERS else link.process), link.device
    device = device or next((link.device for link in chain.links if link.device), "")
    remedy = chain.remedy
    advice = next((fix.text for fix in chain.fixes), "")
    return ProblemSummary(
        id=chain.identity,
        cause=chain.cause,
        severity=chain.severity,
        title=chain.title,
        namespace=victim.namespace,
        victim=victim.name or chain.tenant,
        process=chain.process,
        operation=chain.operation,
        culprit_namespace=culprit.namespace,
        culprit=by,
        device=device,
        lost_ms_per_s=round(chain.lost_ms_per_s, 1),
        since=round(chain.since, 3),
        summary=chain.summary[:_MOST_TEXT],
        fix=(remedy.command if remedy is not None else advice)[:_MOST_TEXT],
        confidence=round(chain.confidence, 2),
        line=_line(chain),
    )


def _line(chain: Chain) -> str:
    """Returns the line of the victim's own code that is nearest to the cause: of a problem of a data loader,
    the line of the loader, not that of the program that waits for it."""
    own = [link for link in chain.links if link.role == "line" and link.tenant == chain.tenant]
    nearest = max(own, key=lambda link: link.depth, default=None)
    found = None if nearest is None else _PLACE.match(nearest.text)
    return "" if found is None else found[1][:_MOST_TEXT]


def _device(device: Device) -> DeviceSummary:
    used, total = device.memory_used_bytes, device.memory_total_bytes
    return DeviceSummary(
        str(device.index),
        device.name,
        _figure(device.utilization_percent),
        round(100.0 * used / total, 1) if used is not None and total else UNKNOWN,
        _figure(device.temperature_celsius),
        _figure(device.power_watts),
        _figure(device.sm_clock_mhz),
        "; ".join(device.throttle_reasons),
    )


def _figure(value: float | None) -> float:
    return UNKNOWN if value is None else round(float(value), 1)


def _ranks(window: Window) -> tuple[RankSummary, ...]:
    devices: dict[int, set[str]] = {}
    for key in window.rows.keys:
        if key.device:
            devices.setdefault(key.pid, set()).add(key.device)
    ranks = sorted(window.evidence.ranks, key=_importance)
    return tuple(_rank(one, window.tenants, devices.get(one.pid, set())) for one in ranks[:MOST_RANKS])


def _importance(rank: Rank) -> tuple[bool, int, str, int]:
    """Sort key. If a summary has no room for all ranks, those of communicators that are on this host alone
    are left out first, because the host itself compares them; then those of small communicators, in the
    same order on all hosts. Hosts with more ranks leave out communicators that others have room for."""
    return rank.local_ranks >= rank.ranks, -rank.ranks, rank.communicator, rank.rank


def _rank(rank: Rank, tenants: Mapping[str, Tenant], devices: set[str]) -> RankSummary:
    tenant = tenants.get(rank.tenant, _NOBODY)
    return RankSummary(
        rank.communicator,
        rank.rank,
        rank.ranks,
        tenant.namespace,
        tenant.name or rank.tenant,
        rank.pid,
        rank.process,
        rank.entered,
        rank.since_entry_ns,
        rank.entries,
        next(iter(devices)) if len(devices) == 1 else "",
        rank.nccl_hashes,
    )
