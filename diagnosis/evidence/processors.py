"""Reads CPUs: which ones a process may use, which are idle, and what a quota takes away."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.facts import Facts
from stalltop.model.cpu_list import cpus_of

THROTTLED_PERIODS: Final = 0.1
"""Least part of its periods in which a quota has to run out to count as a cause."""
BUSY_PERCENT: Final = 50.0
"""Mean load of the CPUs that a process may use below which it waits for them only in short bursts, so that
more CPUs would hardly help, percent. The limit is low because the waits themselves are measured, and because
two threads that wait for a device between steps leave their CPU idle for a third of the time."""
IDLE_PERCENT: Final = 70.0
"""Load of a CPU below which it has room for one more thread, percent."""
LESS_BUSY_PERCENT: Final = 25.0
"""A CPU has room only if its load is lower by at least this than the mean load of the CPUs that the process
may use, in percent points: noise makes smaller differences."""


def cpuset_of(facts: Facts, tenant: str) -> frozenset[int]:
    """Returns the CPUs that the tenant's cgroup may use; none if that is not known."""
    use = facts.use(tenant)
    return cpus_of(use.cpuset) if use is not None else frozenset()


def cpus_for(facts: Facts, tenant: str) -> int:
    """Returns how many CPUs a tenant may use; 0 if that is not known."""
    system = facts.window.system
    return len(cpuset_of(facts, tenant)) or (system.cpus if system is not None else 0)


def idle_elsewhere(facts: Facts, pid: int) -> frozenset[int]:
    """Returns the CPUs with room that ``pid`` may not use, if the CPUs that it may use are busy; otherwise an
    empty set."""
    process, system = facts.process(pid), facts.window.system
    if process is None or system is None or not system.cpu_each_percent:
        return frozenset()
    busy = system.cpu_each_percent
    allowed = cpus_of(process.allowed) & frozenset(range(len(busy)))
    mine = sum(busy[cpu] for cpu in allowed) / len(allowed) if allowed else 0.0
    if mine < BUSY_PERCENT:
        return frozenset()
    room = min(IDLE_PERCENT, mine - LESS_BUSY_PERCENT)
    return frozenset(cpu for cpu in range(len(busy)) if cpu not in allowed and busy[cpu] < room)


def throttled_ns(facts: Facts, tenant: str) -> float:
    """Returns for how many ns of the window the tenant's CPU quota stopped it; 0 if it did so in few of its
    periods."""
    use = facts.use(tenant)
    if use is None or use.throttled_ns <= 0 or not use.throttled_periods:
        return 0.0
    if use.throttled_periods < THROTTLED_PERIODS * use.periods:
        return 0.0
    return float(use.throttled_ns)
