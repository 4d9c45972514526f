"""Finds host causes that are not waits: processes that were killed for lack of memory, and the cost of
tracing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.evidence.memory import at_limit
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.faults import less_for_others, more_memory, users_of_host
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.wording import commands
from stalltop.model.actions.placeholders import MIB
from stalltop.model.chain import Fix, Link
from stalltop.model.evidence import HOST_LAYER
from stalltop.model.telling import Telling
from stalltop.model.text.words import program_of

CAUSES: Final = (
    Cause(
        "oom_kill",
        "Killed: out of memory (OOM)",
        "the Linux kernel killed a process of the tenant",
        Telling(
            "was killed for lack of memory",
            "lost a process, which was killed for lack of memory",
            state="lost a process",
        ),
        least="critical",
        at_once=True,
        stays_seconds=60.0,
    ),
)

COST_SHARE: Final = 0.05
"""The cost of tracing is reported if it takes at least this part of the time of a process's calling threads,
0 to 1."""


def oom_kill(facts: Facts) -> Iterator[Suspicion]:
    """Yields a suspicion for each event in which the Linux kernel killed a process for lack of memory. If a
    tenant has no such event, but the kill counter of its cgroup rose, yields one for the tenant."""
    events = [event for event in facts.window.evidence.events if event.kind == "oom_kill"]
    for event in events:
        yield _killed(facts, event.tenant, event.pid, event.process)
    told = {event.tenant for event in events}
    for use in facts.window.evidence.tenants:
        if use.oom_kills and use.tenant not in told:
            yield _killed(facts, use.tenant, 0, "")


def _killed(facts: Facts, tenant: str, pid: int, process: str) -> Suspicion:
    name, use = facts.name(tenant), facts.use(tenant)
    limit = use.memory_limit_bytes if use is not None else None
    about_memory = use is not None and (limit is not None or use.memory_used_bytes is not None)
    links: list[Link] = []
    unknown: tuple[str, ...] = ()
    smaller = Fix("or let it need less memory: smaller batches, fewer workers, fewer prefetched batches")
    if use is not None and (use.limit_kills or (limit and (use.limit_hits or at_limit(facts, tenant)))):
        of = f" of {limit / MIB:,.0f} MiB" if limit else ""
        why = f"{name} reached its memory limit{of}"
        raised = Fix(f"raise the memory limit of {name}{commands.memory_file(use)}")
        fixes = [more_memory(facts, tenant, use) if limit else raised, smaller]
        # With cgroup v1, ``limit_kills`` also counts cases in which the limit was reached, but memory could
        # be freed.
        if not use.limit_kills or use.memory_version == 1:
            unknown = ("whether this limit caused the kill: it is only known that it was reached",)
    elif about_memory:
        of = f": {name} did not reach its own limit" if limit else f": {name} has no memory limit of its own"
        why = f"the host, or a cgroup above, ran out of memory{of}"
        links = users_of_host(facts)
        fixes = [less_for_others(facts), smaller]
        unknown = ("how much memory each tenant had at the moment of the kill",)
    else:
        why = "memory ran out"
        fixes = [
            Fix(
                "see whose memory ran out: constraint= in the Linux kernel's log",
                "dmesg | grep -i oom",
                look=True,
            ),
            smaller,
        ]
        unknown = ("whether the limit of its cgroup or the host's memory ran out",)
    who = program_of(process, pid, name) if pid else f"a process of {name}"
    return Suspicion(
        cause="oom_kill",
        tenant=tenant,
        summary=f"{who} was killed for lack of memory",
        lost_ns_per_s=0.0,
        confidence=1.0,
        links=(
            Link(
                "effect",
                f"{process or 'a process'} was killed",
                tenant=tenant,
                pid=pid,
                process=process,
                depth=0,
            ),
            Link("culprit", why, tenant=tenant, pid=pid, process=process),
            *links,
        ),
        fixes=tuple(fixes),
        pid=pid,
        process=process,
        unknown=unknown,
    )


def tracer(facts: Facts) -> Iterator[Suspicion]:
    """Yields processes that lose a noticeable part of their time to tracing. The loss is computed from the
    number of their calls and the time that probes add to one call."""
    coverage = facts.window.coverage
    for pid in facts.callers:
        rows = [row for row in facts.rows_of(pid) if row.key.layer != HOST_LAYER]
        calls = sum(row.calls for row in rows)
        share = calls * coverage.probe_ns / facts.wall_ns(pid)
        if share < COST_SHARE:
            continue
        key = max(rows, key=lambda row: row.calls).key
        lost = facts.per_second(calls * coverage.probe_ns)
        yield Suspicion(
            cause="tracer",
            tenant=key.tenant,
            summary=f"tracing takes time of {program_of(key.process, pid, facts.name(key.tenant))}",
            lost_ns_per_s=lost,
            share=min(share, 1.0),
            confidence=0.9,
            links=(
                link_of(
                    key,
                    "effect",
                    f"{facts.per_second(calls):,.0f} calls per second; most frequent: {key.operation}",
                    ns_per_s=lost,
                    depth=0,
                ),
                Link(
                    "culprit",
                    f"stalltop: its probes take {coverage.probe_ns:.0f} ns per call",
                    share=1.0,
                    ns_per_s=lost,
                    pid=facts.own_pid,
                    process="stalltop",
                ),
            ),
            fixes=(Fix("start stalltop with --budget 1%, or fuse small kernels (CUDA graphs)"),),
            effect=key,
            rows=(key,),
            pid=pid,
            process=key.process,
        )
