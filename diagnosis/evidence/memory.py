"""Judges memory: whether a limit is reached, and whether pages that were dropped are read again."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.facts import Facts

PAGE_BYTES: Final = 4096
"""Assumed page size, bytes. If the Linux kernel has larger pages, the number of bytes that are read back is
underestimated."""
READ_BACK: Final = 0.5
"""If at least this part of what a tenant reads from disks had been dropped from its memory shortly before,
the tenant has too little memory."""
RECLAIM_OF_WAIT: Final = 0.25
"""If direct reclaim of a tenant takes at least this part of the time for which one of its processes waits for
disks and memory, it is the cause of these waits."""
AT_LIMIT: Final = 0.95
"""A cgroup is at its memory limit if it uses at least this part of it. Page cache counts as used, so from
about here on the Linux kernel has to free memory of the cgroup before the cgroup can read more."""
MOST_USERS: Final = 3
"""Maximum number of users of the host's memory that are named."""
FAULTS_A_SECOND: Final = 20.0
"""Least number of major faults per second that matters. Each fault waits for the disk, but every program has
a few when it starts."""


def at_limit(facts: Facts, tenant: str) -> bool:
    """Returns whether a tenant's memory is nearly at its limit."""
    use = facts.use(tenant)
    if use is None or not use.memory_limit_bytes or use.memory_used_bytes is None:
        return False
    return use.memory_used_bytes >= AT_LIMIT * use.memory_limit_bytes


def thrashes(facts: Facts, tenant: str, pid: int) -> bool:
    """Returns whether process ``pid`` waits for disks or memory because of its tenant's memory limit.

    That is so if the tenant is at the limit and reclaims memory and, in addition, either reads back pages
    that were dropped or spends time in reclaim that is a large part of the process's waits for disks and
    memory. A full limit with some reclaim is no evidence: page cache fills every limit, and a program that
    reads more files than fit reclaims all the time at no cost.
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
    """Returns the id of the cause of a wait for memory; '' if the evidence shows none."""
    if thrashes(facts, tenant, pid):
        return "reclaim"
    process, use = facts.process(pid), facts.use(tenant)
    if process is not None and facts.per_second(process.major_faults) >= FAULTS_A_SECOND:
        return "major_faults"
    return "reclaim" if use is not None and use.reclaim_ns > 0 else ""


def largest_users(facts: Facts) -> list[tuple[str, int]]:
    """Returns (id, bytes) of the tenants that use most of the host's memory, the largest first. Tenants whose
    use is not known are left out."""
    resident: dict[str, int] = {}
    for process in facts.window.evidence.processes:
        if process.tenant:
            resident[process.tenant] = resident.get(process.tenant, 0) + process.rss_bytes
    for use in facts.window.evidence.tenants:
        # The figure of the cgroup is exact, and includes page cache.
        if use.memory_used_bytes is not None:
            resident[use.tenant] = use.memory_used_bytes
    found = sorted(resident.items(), key=lambda item: (-item[1], item[0]))
    return [(tenant, size_bytes) for tenant, size_bytes in found if size_bytes][:MOST_USERS]
