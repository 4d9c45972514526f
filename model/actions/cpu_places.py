"""Chooses CPUs on which processes do not disturb others. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from stalltop.model.actions.placeholders import use_of_process, use_of_tenant
from stalltop.model.cpu_list import cpus_of
from stalltop.model.window import Window

_NONE: Final[frozenset[int]] = frozenset()


class CpuTarget(NamedTuple):
    """One process, or all processes of a tenant (``pid`` 0)."""

    tenant: str
    pid: int


def every_cpu(window: Window) -> frozenset[int]:
    """Returns the CPUs of the host; none if unknown."""
    return frozenset(range(window.system.cpus)) if window.system is not None else _NONE


def cpuset_of(window: Window, tenant: str) -> frozenset[int]:
    """Returns the CPUs that the tenant's cgroup may use; none if that is not known."""
    use = use_of_tenant(window, tenant)
    return cpus_of(use.cpuset) if use is not None else _NONE


def reserved(window: Window, victim_pid: int) -> frozenset[int]:
    """Returns the CPUs to keep free for a victim: those that it may use or, if these are all CPUs or are not
    known, the half of the host's CPUs with the lower numbers. Once the culprits have left these CPUs, the
    scheduler moves the victim there."""
    every = every_cpu(window)
    use = use_of_process(window, victim_pid)
    own = cpus_of(use.allowed) & every if use is not None else _NONE
    return own if own and own != every else frozenset(range((len(every) + 1) // 2))


def apart(window: Window, kept: frozenset[int], culprits: Sequence[CpuTarget]) -> tuple[frozenset[int], ...]:
    """Returns the CPUs for each of ``culprits``: none of them is in ``kept``, and none is given to two
    culprits. A culprit for which no CPU is left gets none.

    The Linux kernel refuses CPUs outside the CPU set of the cgroup, so each culprit gets only CPUs of its own
    set. If CPUs are short, culprits with fewer possible CPUs choose first.
    """
    every = every_cpu(window) - kept
    possible = [every & (cpuset_of(window, culprit.tenant) or every) for culprit in culprits]
    found = [_NONE] * len(culprits)
    taken: frozenset[int] = _NONE
    order = sorted(range(len(culprits)), key=lambda at: (len(possible[at]), at))
    for number, at in enumerate(order):
        left = sorted(possible[at] - taken)
        rivals = 1 + sum(bool(possible[other] & possible[at]) for other in order[number + 1 :])
        found[at] = frozenset(left[: max(len(left) // rivals, 1)])
        taken |= found[at]
    return tuple(found)


def idlest_half(window: Window, process: CpuTarget) -> frozenset[int]:
    """Returns the less busy half of the CPUs that ``process`` (a process or a tenant) may use; none if it may
    use only one, or if the load of the CPUs is not known."""
    system = window.system
    if system is None or not system.cpu_each_percent:
        return _NONE
    use = use_of_process(window, process.pid) if process.pid else None
    own = cpus_of(use.allowed) if use is not None else _NONE
    own = (own or cpuset_of(window, process.tenant) or every_cpu(window)) & every_cpu(window)
    busy = system.cpu_each_percent
    ordered = sorted((cpu for cpu in own if cpu < len(busy)), key=lambda cpu: (round(busy[cpu] / 10), -cpu))
    return frozenset(ordered[: len(ordered) // 2])
