"""Judges memory: limits that are reached, pages that are read back."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.facts import Facts

PAGE_BYTES: Final = 4096
"""Assumed page size, bytes. A Linux kernel with larger pages counts refaults of larger pages, so what is read
back is then underestimated."""
READ_BACK: Final = 0.5
"""If at least this part of what a tenant reads from disks had been dropped from its memory shortly before,
its memory is too small."""
RECLAIM_OF_WAIT: Final = 0.25
"""If direct reclaim takes at least this part of the waits of a process, it is their cause."""
AT_LIMIT: Final = 0.95
"""Used part of a cgroup's memory limit from which on the Linux kernel has to free memory of the cgroup before
it can read more: page cache counts into the limit."""
MOST_USERS: Final = 3
"""Maximum number of users of the host's memory that are named."""
FAULTS_A_SECOND: Final = 20.0
"""Least number of major faults per second that matter: each waits for the disk, and a program that starts has
a few."""


def at_limit(facts: Facts, tenant: str) -> bool:
    """Returns whether a tenant's memory is nearly at its limit."""
    use = facts.use(tenant)
    if use is None or not use.memory_limit_bytes or use.memory_used_bytes is None:
        return False
    return use.memory_used_bytes >= AT_LIMIT * use.memory_limit_bytes


def thrashes(facts: Facts, tenant: str, pid: int) -> bool:
    """Returns whether the memory limit of a tenant is why ``pid`` waits for disks or memory. It is if the
    tenant is at the limit and reclaims, and either pages that were dropped are read back, or reclaim takes a
    large part of the waits.

    A full limit and some reclaim alone are no evidence: page cache fills every limit, and a program that
    reads more files than the limit holds reclaims all the time at no cost.
    """
    use = facts.use(tenant)
    if use is None or use.reclaims <= 0 or not at_limit(facts, tenant):
        return False
    read_bytes = sum(
        io.bytes for io in facts.window.evidence.block_io if io.tenant == tenant and not io.write
    )
    if use.refaults and use.refaults * PAGE_BYTES >= READ_BACK * read_bytes:
        return True
    rows = facts.rows_of(pid)
    waited_ns = sum(row.split_ns.get(part, 0) for row in rows for part in ("disk", "memory"))
    return use.reclaim_ns >= RECLAIM_OF_WAIT * waited_ns


def cause_of_wait(facts: Facts, tenant: str, pid: int) -> str:
    """Returns the cause of a wait for memory; '' if nothing shows it."""
    if thrashes(facts, tenant, pid):
        return "reclaim"
    process, use = facts.process(pid), facts.use(tenant)
    if process is not None and facts.per_second(process.major_faults) >= FAULTS_A_SECOND:
        return "major_faults"
    return "reclaim" if use is not None and use.reclaim_ns > 0 else ""


def largest_users(facts: Facts) -> list[tuple[str, int]]:
    """Returns the tenants that use most memory of the host, as far as it is known: (id, bytes), the largest
    first."""
    resident: dict[str, int] = {}
    for process in facts.window.evidence.processes:
        if process.tenant:
            resident[process.tenant] = resident.get(process.tenant, 0) + process.rss_bytes
    for use in facts.window.evidence.tenants:
        # The figure of a cgroup is exact, page cache included.
        if use.memory_used_bytes is not None:
            resident[use.tenant] = use.memory_used_bytes
    found = sorted(resident.items(), key=lambda item: (-item[1], item[0]))
    return [(tenant, size_bytes) for tenant, size_bytes in found if size_bytes][:MOST_USERS]
