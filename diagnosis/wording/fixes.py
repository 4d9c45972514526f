"""Makes fixes that rules of several packages propose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who
from stalltop.diagnosis.wording import commands
from stalltop.diagnosis.wording.culprits import named
from stalltop.model.actions.cpu_places import CpuTarget, apart, reserved
from stalltop.model.chain import Fix
from stalltop.model.cpu_list import list_of

SEGMENTS_UNKNOWN: Final = (
    "which interface and which peer lose segments: they are counted by process",
    "RDMA traffic bypasses the host's TCP and is not seen",
)
"""What is not known about connections that lose segments."""
EQUAL_WORK: Final = "equal shards, batch sizes and lengths (DistributedSampler, bucketing by length)"
"""How all ranks of a job get the same work."""


def keep_off(facts: Facts, victim_pid: int, culprit: Who) -> Fix:
    """Returns a fix that keeps a culprit away from the CPUs of the victim."""
    return keep_all_off(facts, victim_pid, (culprit,))[0]


def keep_all_off(facts: Facts, victim_pid: int, culprits: Sequence[Who]) -> list[Fix]:
    """Returns a fix for each of ``culprits``. Each keeps its culprit on CPUs that neither the victim nor
    another culprit gets. If no such CPU is left, it lowers the tenant's share of CPU time or, if no command
    does that, the culprit's priority."""
    window = facts.window
    targets = [CpuTarget(culprit.tenant, culprit.pid) for culprit in culprits]
    places = apart(window, reserved(window, victim_pid), targets)
    return [_keep_on(facts, culprit, cpus) for culprit, cpus in zip(culprits, places, strict=True)]


def _keep_on(facts: Facts, culprit: Who, cpus: frozenset[int]) -> Fix:
    """Returns a fix that keeps a culprit on ``cpus``. If there are none, the fix lowers its tenant's share of
    CPU time or, if no command does that, its priority."""
    # Short-lived processes have no PID here, so the fix is for their whole cgroup.
    whom = named(facts, culprit._replace(pid=0)) if culprit.pid else facts.name(culprit.tenant)
    if not cpus:
        # A lower priority counts within a cgroup only, so a whole container gets a lower share instead.
        if share := commands.lower_share(facts, culprit.tenant):
            return Fix(f"give {facts.name(culprit.tenant)} the least share of CPU time", share)
        command = commands.lower_priority(culprit.pid) if culprit.pid else ""
        return Fix(f"lower the priority of {whom}", command)
    where = list_of(cpus)
    if culprit.pid:
        command = commands.move_to_cpus(culprit.pid, where)
    else:
        command = commands.set_cpus(facts, culprit.tenant, where)
    return Fix(f"keep {whom} on CPU{'s' if len(cpus) > 1 else ''} {where}", command)


def segment_fixes(pid: int) -> tuple[Fix, ...]:
    """Returns fixes for a process whose connections lose segments."""
    return (
        Fix(
            "see which connections lose segments, to whom, and by which interface",
            commands.in_network_of(pid, "ss -tinp state established"),
            look=True,
        ),
        Fix(
            "look for drops on that interface, and for an MTU that does not fit",
            commands.in_network_of(pid, "ip -s link"),
            look=True,
        ),
        Fix("let NCCL use the right interface (NCCL_SOCKET_IFNAME), or RDMA"),
    )
