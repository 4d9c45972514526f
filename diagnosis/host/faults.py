"""Describes waits for memory: for reclaim, and for pages that are read back from disk."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.attribution.losses import Loss
from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.evidence import block
from stalltop.diagnosis.evidence.memory import at_limit, largest_users
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.wording import commands
from stalltop.model.actions.placeholders import MIB
from stalltop.model.chain import Fix, Link
from stalltop.model.evidence import TenantUse
from stalltop.model.telling import Telling
from stalltop.model.text.words import program

SURE: Final = 0.9
PROBABLE: Final = 0.6
MORE_MEMORY: Final = 2
"""Factor by which a fix raises a memory limit. How much memory the tenant needs is not known while the limit
holds it back."""


def reclaim(facts: Facts, loss: Loss) -> Description:
    """Describes waits in which threads free memory, or read again pages that were dropped too early."""
    who = loss.last
    use = facts.use(who.tenant)
    name = facts.name(who.tenant)
    depth = len(loss.path) + 2
    if use is None or not at_limit(facts, who.tenant) or use.memory_limit_bytes is None:
        links = [Link("reason", "the host is short of memory", tenant="", depth=depth), *users_of_host(facts)]
        fixes = [less_for_others(facts)]
    else:
        used, limit = use.memory_used_bytes or 0, use.memory_limit_bytes
        links = [
            link_of(
                who,
                "culprit",
                f"{name} is at its memory limit: {used / MIB:,.0f} of {limit / MIB:,.0f} MiB",
                share=1.0,
                ns_per_s=facts.per_second(loss.ns),
                depth=depth,
            )
        ]
        fixes = [
            more_memory(facts, who.tenant, use),
            Fix("or keep less in memory: smaller caches, fewer workers; page cache counts into the limit"),
        ]
        if use.refaults:
            text = (
                f"{facts.per_second(use.refaults):,.0f} pages a second are read again after they were dropped"
            )
            links.append(Link("factor", text, tenant=who.tenant))
    if use is not None and use.reclaims:
        text = f"{facts.per_second(use.reclaims):,.0f} direct reclaims a second"
        links.append(Link("factor", text, ns_per_s=facts.per_second(use.reclaim_ns), tenant=who.tenant))
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits while memory of {name} is reclaimed",
        links=tuple(links),
        fixes=tuple(fixes),
        confidence=SURE if use is not None and use.reclaims else PROBABLE,
    )


def more_memory(facts: Facts, tenant: str, use: TenantUse) -> Fix:
    """Returns a fix that raises the memory limit of a tenant, at most to the memory of the host."""
    limit, system = use.memory_limit_bytes or 0, facts.window.system
    total = (system.memory_total_bytes or 0) if system is not None else 0
    wanted = MORE_MEMORY * limit
    text = f"raise the memory limit of {facts.name(tenant)}{commands.memory_file(use)}"
    if 0 < total <= limit:
        return Fix(
            f"the limit is as large as the host's memory of {total / MIB:,.0f} MiB: only more memory in the "
            "host helps",
            short="add memory to the host",
        )
    if 0 < total < wanted:
        wanted = total
        text += f", at most to the {total / MIB:,.0f} MiB that the host has"
    command = commands.limit_memory(facts, tenant, wanted, now_by=use.memory_cgroup)
    return Fix(text, command, short="raise its memory limit")


def users_of_host(facts: Facts) -> list[Link]:
    """Returns links of role ``factor`` that name the tenants with most of the host's memory."""
    return [
        Link(
            "factor",
            f"{facts.name(tenant)} uses {size_bytes / MIB:,.0f} MiB of the host's memory",
            tenant=tenant,
        )
        for tenant, size_bytes in largest_users(facts)
    ]


def less_for_others(facts: Facts) -> Fix:
    """Returns a fix for a host that is short of memory: less memory for its largest users."""
    names = ", ".join(facts.name(tenant) for tenant, _ in largest_users(facts))
    largest = f" ({names})" if names else ""
    return Fix(
        f"give the largest memory users of the host{largest} limits of their own, or run fewer of them",
        short="limit the largest memory users of the host",
    )


def read_back(facts: Facts, loss: Loss) -> Description:
    """Describes waits for pages that are read from disk when a thread touches them."""
    who = loss.last
    process = facts.process(who.pid)
    swapped = facts.window.evidence.swap_in_bytes
    count = facts.per_second(process.major_faults) if process is not None else 0.0
    found = block.device_of(facts, who.tenant, who.pid)
    culprit = link_of(
        who,
        "culprit",
        f"{program(who.process, who.pid)} reads {count:,.0f} pages per second back from disk",
        share=1.0,
        ns_per_s=facts.per_second(loss.ns),
        device=found.name if found is not None else "",
        depth=len(loss.path) + 2,
    )
    factors = []
    if swapped:
        text = f"the host swaps in {facts.per_second(swapped) / MIB:,.1f} MiB a second"
        factors.append(Link("factor", text))
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for pages that are read from disk",
        links=(culprit, *factors),
        fixes=(
            Fix(
                "read files ahead (readahead, MAP_POPULATE, mlock), or copy them to memory once",
                short="read files ahead (MAP_POPULATE, mlock)",
            ),
            Fix("raise the memory limit, or run fewer programs on this host")
            if not swapped
            else Fix(f"keep {who.process} out of swap (mlock, or no swap for its cgroup), or add memory"),
        ),
        confidence=SURE,
    )


CAUSES: Final = (
    HostCause(
        Cause(
            "reclaim",
            "Stalled by memory reclaim",
            "threads have to free memory, or read pages back, before they go on",
            Telling("is at its memory limit", "waits while memory is reclaimed", parts=("memory", "disk")),
        ),
        reclaim,
        certain=True,
    ),
    HostCause(
        Cause(
            "major_faults",
            "Major page faults",
            "memory was swapped out or dropped and is read again",
            Telling(
                "reads pages back from {device}",
                "waits for pages that are read back from {device}",
                device="the disk",
                parts=("memory", "disk"),
            ),
        ),
        read_back,
        certain=True,
    ),
)
