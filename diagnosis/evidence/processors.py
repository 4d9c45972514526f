"""Reads the evidence about CPUs: which CPUs a process may use, which are idle, and what a quota takes
away."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.facts import Facts
from stalltop.model.cpu_list import cpus_of

THROTTLED_PERIODS: Final = 0.1
"""A quota is a cause only if it runs out in at least this part of its periods."""
BUSY_PERCENT: Final = 50.0
"""The CPUs that a process may use are busy if their mean load is at least this, percent. If the load is
lower, the process waits for them only in short bursts, and more CPUs would hardly help.

The limit is low because the waits themselves are measured. Besides, two threads that share a CPU delay each
other even if the CPU is idle for a third of the time, because both wait for a device between their steps.
"""
ROOM_SHARE: Final = 0.5
"""CPUs that are idle for at least this part of the time have room for more threads. The part is large because
threads that run in bursts, as those of a pool do, compete although the CPUs are idle between the bursts."""
IDLE_PERCENT: Final = 70.0
"""A CPU has room for one more thread if its load is below this, percent."""
LESS_BUSY_PERCENT: Final = 25.0
"""Percentage points. A CPU has room for a process only if its load is at least this far below the mean load
of the CPUs that the process may use. Smaller differences are noise."""


def cpuset_of(facts: Facts, tenant: str) -> frozenset[int]:
    """Returns the CPUs that the tenant's cgroup may use; an empty set if they are not known."""
    use = facts.use(tenant)
    return cpus_of(use.cpuset) if use is not None else frozenset()


def cpus_for(facts: Facts, tenant: str) -> int:
    """Returns how many CPUs a tenant may use; 0 if that is not known."""
    system = facts.window.system
    return len(cpuset_of(facts, tenant)) or (system.cpus if system is not None else 0)


def idle_ns(facts: Facts, tenant: str) -> float:
    """Returns for how many ns the CPUs that a tenant may use were idle, added up; 0 if that is not known."""
    idle = _idle_each(facts, cpuset_of(facts, tenant))
    return sum(idle) * facts.seconds * 1e9


def has_room(facts: Facts, pid: int) -> bool:
    """Returns whether the CPUs that a process may use were idle for at least ``ROOM_SHARE`` of the time."""
    process = facts.process(pid)
    idle = _idle_each(facts, cpus_of(process.allowed) if process is not None else frozenset())
    return bool(idle) and sum(idle) >= ROOM_SHARE * len(idle)


def _idle_each(facts: Facts, allowed: frozenset[int]) -> list[float]:
    """Returns for which part of the time, 0 to 1, each of the CPUs ``allowed`` was idle; each CPU of the host
    if ``allowed`` is empty."""
    system = facts.window.system
    busy = system.cpu_each_percent if system is not None else ()
    return [1.0 - percent / 100.0 for cpu, percent in enumerate(busy) if not allowed or cpu in allowed]


def idle_elsewhere(facts: Facts, pid: int) -> frozenset[int]:
    """Returns the CPUs that have room but that ``pid`` may not use. Returns an empty set if the CPUs that it
    may use are not busy."""
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


def has_idle_cpu(facts: Facts, tenant: str, kept: frozenset[int]) -> bool:
    """Returns whether ``tenant`` may use a CPU that is idle and not in ``kept``; True if the loads of the
    CPUs are not known."""
    system = facts.window.system
    if system is None or not system.cpu_each_percent:
        return True
    possible = cpuset_of(facts, tenant) or frozenset(range(len(system.cpu_each_percent)))
    return any(
        cpu in possible and cpu not in kept and busy < IDLE_PERCENT
        for cpu, busy in enumerate(system.cpu_each_percent)
    )


def throttled_ns(facts: Facts, tenant: str) -> float:
    """Returns for how many ns of the window, summed over CPUs, the tenant's CPU quota stopped it; 0 if the
    quota ran out in few of its periods."""
    use = facts.use(tenant)
    if use is None or use.throttled_ns <= 0 or not use.throttled_periods:
        return 0.0
    if use.throttled_periods < THROTTLED_PERIODS * use.periods:
        return 0.0
    return float(use.throttled_ns)
