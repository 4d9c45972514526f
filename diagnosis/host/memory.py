"""Memory: limits that are reached, pages that are read back."""

from __future__ import annotations

from typing import Final

from diagnosis.facts import Facts

AT_LIMIT: Final = 0.95
"""A cgroup that uses more of its limit has to free memory for what it reads next: page cache counts in."""
FAULTS_A_SECOND: Final = 20.0
"""Major faults a second: each waits for the disk, and a program that starts has a few."""


def at_limit(facts: Facts, tenant: str) -> bool:
    """Whether a tenant's memory is as good as full."""
    use = facts.use(tenant)
    if use is None or not use.memory_limit_bytes or use.memory_used_bytes is None:
        return False
    return use.memory_used_bytes >= AT_LIMIT * use.memory_limit_bytes


def thrashes(facts: Facts, tenant: str) -> bool:
    """Whether what a tenant reads pushes out what it reads next: it is at its limit, and reclaims."""
    use = facts.use(tenant)
    return use is not None and use.reclaims > 0 and at_limit(facts, tenant)


def cause_of_wait(facts: Facts, tenant: str, pid: int) -> str:
    """The cause of a wait for memory; empty where nothing tells."""
    if thrashes(facts, tenant):
        return "reclaim"
    process, use = facts.process(pid), facts.use(tenant)
    if process is not None and facts.per_second(process.major_faults) >= FAULTS_A_SECOND:
        return "major_faults"
    return "reclaim" if use is not None and use.reclaim_ns > 0 else ""
