"""Makes fixes that rules of several packages propose."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.evidence.processors import cpuset_of
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who
from stalltop.diagnosis.wording import commands
from stalltop.diagnosis.wording.culprits import named
from stalltop.model.chain import Fix
from stalltop.model.cpu_list import cpus_of, list_of

SEGMENTS_UNKNOWN: Final = (
    "which interface and which peer lose them: segments are counted by process",
    "RDMA traffic bypasses the host's TCP and is not seen",
)
"""What is not known about connections that lose segments."""


def keep_off(facts: Facts, victim_pid: int, culprit: Who) -> Fix:
    """Returns a fix that keeps a culprit away from the CPUs of the victim."""
    system = facts.window.system
    cpus = system.cpus if system is not None else 0
    everywhere = frozenset(range(cpus))
    victim = facts.process(victim_pid)
    mine = cpus_of(victim.allowed) if victim is not None else frozenset()
    theirs = everywhere - mine if mine else frozenset()
    if not theirs and cpus > 1:
        theirs = everywhere - frozenset(range((cpus + 1) // 2))
    # The Linux kernel refuses CPUs that are not in the CPU set of the cgroup.
    theirs &= cpuset_of(facts, culprit.tenant) or everywhere
    # Short-lived processes have no PID here, so the fix is for their whole cgroup.
    whom = named(facts, culprit._replace(pid=0)) if culprit.pid else facts.name(culprit.tenant)
    if not theirs:
        command = commands.lower_priority(culprit.pid) if culprit.pid else ""
        return Fix(f"lower the priority of {whom}", command)
    where = list_of(theirs)
    if culprit.pid:
        command = commands.move_to_cpus(culprit.pid, where)
    else:
        command = commands.set_cpus(facts, culprit.tenant, where)
    return Fix(f"keep {whom} on CPU{'s' if len(theirs) > 1 else ''} {where}", command)


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
