"""CPUs: which a process may run on, which are idle, and what a quota takes away."""

from __future__ import annotations

from typing import Final

from diagnosis.facts import Facts
from model.cpu_list import cpus_of

THROTTLED_PERIODS: Final = 0.1
"""Part of the quota's periods in which it ran out: below that, running into it is no pattern."""
BUSY_PERCENT: Final = 80.0
"""A CPU that is busier than this has a queue most of the time."""
IDLE_PERCENT: Final = 70.0
"""A CPU that is less busy than this has room for one more thread."""


def cpuset_of(facts: Facts, tenant: str) -> frozenset[int]:
    """CPUs that the tenant's cgroup may use; none where that is not known."""
    use = facts.use(tenant)
    return cpus_of(use.cpuset) if use is not None else frozenset()


def idle_elsewhere(facts: Facts, pid: int) -> frozenset[int]:
    """CPUs with room that ``pid`` may not run on, while those that it may are busy; none otherwise."""
    process, system = facts.process(pid), facts.window.system
    if process is None or system is None or not system.cpu_each_percent:
        return frozenset()
    busy = system.cpu_each_percent
    allowed = cpus_of(process.allowed) & frozenset(range(len(busy)))
    if not allowed or sum(busy[cpu] for cpu in allowed) < BUSY_PERCENT * len(allowed):
        return frozenset()
    return frozenset(cpu for cpu in range(len(busy)) if cpu not in allowed and busy[cpu] < IDLE_PERCENT)


def throttled_ns(facts: Facts, tenant: str) -> float:
    """Time that the tenant's CPU quota stopped it, ns of the window; 0 where that is no pattern."""
    use = facts.use(tenant)
    if use is None or use.throttled_ns <= 0 or not use.throttled_periods:
        return 0.0
    if use.throttled_periods < THROTTLED_PERIODS * use.periods:
        return 0.0
    return float(use.throttled_ns)
