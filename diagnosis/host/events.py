"""Host causes that are no lost time of calls: kills, hung calls, what tracing costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from diagnosis.facts import Facts
from diagnosis.gpu.nccl import waits_for_ranks
from diagnosis.host import commands
from diagnosis.host.faults import MORE_MEMORY
from diagnosis.suspicion import Suspicion
from model.chain import Fix, Link
from model.window import OpenCall, RowKey

HUNG_NS: Final = 10_000_000_000
"""A call that is open for longer is longer than any step or copy that one waits for on purpose."""
COST_PERCENT: Final = 5.0
"""Of one CPU: what tracing may take before it is a cause."""


def oom_kill(facts: Facts) -> Iterator[Suspicion]:
    """The kernel killed a process."""
    for event in facts.window.evidence.events:
        if event.kind != "oom_kill":
            continue
        use = facts.use(event.tenant)
        name = facts.name(event.tenant)
        limit = use.memory_limit_bytes if use is not None else None
        why = f"{name} reached its memory limit" if limit else "the host ran out of memory"
        if limit:
            why += f" of {limit / (1 << 20):,.0f} MiB"
        cgroup = f" (memory.max of {use.memory_cgroup})" if use is not None and use.memory_cgroup else ""
        more = ""
        if use is not None and limit:
            more = commands.limit_memory(facts, event.tenant, MORE_MEMORY * limit, now_by=use.memory_cgroup)
        yield Suspicion(
            cause="oom_kill",
            tenant=event.tenant,
            summary=f"{event.process} (pid {event.pid}) of {name} was killed for lack of memory",
            lost_ns_per_s=0.0,
            confidence=1.0,
            links=(
                Link(
                    "effect",
                    f"{event.process} was killed",
                    tenant=event.tenant,
                    pid=event.pid,
                    process=event.process,
                    depth=0,
                ),
                Link("culprit", why, tenant=event.tenant, pid=event.pid, process=event.process),
            ),
            fixes=(
                Fix(f"raise the memory limit of {name}{cgroup}", more),
                Fix("or let it need less: smaller batches, fewer workers, fewer batches ahead"),
            ),
            pid=event.pid,
            process=event.process,
            unknown=() if limit else ("whose memory filled the host",),
        )


def hung_call(facts: Facts) -> Iterator[Suspicion]:
    """A call does not return. Collectives are told by causes of their own."""
    oldest: dict[str, OpenCall] = {}
    for call in facts.window.open_calls:
        if call.nested or call.ended or call.age_ns < HUNG_NS or waits_for_ranks(facts, call):
            continue
        known = oldest.get(call.tenant)
        if known is None or call.age_ns > known.age_ns:
            oldest[call.tenant] = call
    for call in oldest.values():
        key = RowKey(facts.window.host, call.tenant, call.pid, call.process, call.layer, call.operation)
        name = facts.name(call.tenant)
        yield Suspicion(
            cause="hung_call",
            tenant=call.tenant,
            summary=f"{call.process} (pid {call.pid}) of {name} does not return from {call.operation}",
            lost_ns_per_s=1e9,
            share=0.0,
            confidence=0.9,
            links=(
                Link(
                    "effect",
                    f"{call.operation} is open for {call.age_ns / 1e9:.0f} s",
                    ns_per_s=1e9,
                    tenant=call.tenant,
                    pid=call.pid,
                    process=call.process,
                    depth=0,
                ),
                Link(
                    "mechanism",
                    f"thread {call.tid} has not come back from the driver",
                    share=1.0,
                    tenant=call.tenant,
                    pid=call.pid,
                    process=call.process,
                ),
            ),
            fixes=(
                Fix(
                    "see where it stands",
                    f"cat /proc/{call.pid}/task/{call.tid}/stack; py-spy dump -p {call.pid}",
                ),
                Fix("look for errors of the device", "dmesg | grep -i -e xid -e nvrm"),
            ),
            effect=key,
            rows=(key,),
            pid=call.pid,
            process=call.process,
            unknown=("what it waits for",),
        )


def tracer(facts: Facts) -> Iterator[Suspicion]:
    """Tracing itself costs too much."""
    cost = facts.window.coverage.cost_percent
    if cost < COST_PERCENT:
        return
    rows = sorted((row for row in facts.rows if row.key.outermost), key=lambda row: -row.calls)[:1]
    for row in rows:
        yield Suspicion(
            cause="tracer",
            tenant=row.key.tenant,
            summary=f"tracing takes {cost:.0f} % of a CPU: {facts.name(row.key.tenant)} calls most",
            lost_ns_per_s=cost / 100 * 1e9,
            confidence=0.9,
            links=(
                Link(
                    "effect",
                    f"{facts.per_second(row.calls):,.0f} calls a second of {row.key.operation}",
                    tenant=row.key.tenant,
                    pid=row.key.pid,
                    process=row.key.process,
                    depth=0,
                ),
                Link(
                    "culprit",
                    "the probes of stalltop",
                    share=1.0,
                    ns_per_s=cost / 100 * 1e9,
                    pid=facts.own_pid,
                ),
            ),
            fixes=(Fix("stop stalltop, or fuse small kernels (CUDA graphs): fewer calls cost less"),),
            effect=row.key,
            rows=(row.key,),
            pid=row.key.pid,
            process=row.key.process,
        )
