"""Describes CPU time that interrupts took from processes."""

from __future__ import annotations

from collections import Counter
from typing import Final

from stalltop.diagnosis.attribution.losses import Loss
from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.evidence.interrupts import Interrupts
from stalltop.diagnosis.evidence.processors import cpuset_of
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.links import Who, link_of
from stalltop.diagnosis.wording import commands
from stalltop.diagnosis.wording.culprits import SMALLEST_SHARE, named, ranked
from stalltop.model.chain import Fix
from stalltop.model.cpu_list import cpus_of, list_of
from stalltop.model.telling import Telling
from stalltop.model.thread_evidence import CpuInterrupts

SURE: Final = 0.8
LEAST_CPU: Final = 0.02
"""A CPU is named if interrupts take at least this part of its time."""
FREQUENT: Final = 0.02
"""A kind of interrupt is named if its count is at least this part of the count of the most frequent kind on
the CPU. A busy network interface is polled, and then makes few interrupts but many softirqs."""


def by_interrupts(facts: Facts, loss: Loss) -> Description:
    """Describes a process that loses CPU time to interrupts, or to Linux kernel threads that handle
    interrupts."""
    who, depth = loss.last, len(loss.path) + 2
    interrupts = Interrupts(facts)
    threads = ranked(loss.culprits, loss.ns)
    cpus = {cpu for cpu, ns in interrupts.taken(who.pid).items() if ns >= SMALLEST_SHARE * loss.ns} | {
        int(number)
        for thread, _ in threads
        if (number := thread.process.removeprefix("ksoftirqd/")).isdecimal()
    }
    told = [one for cpu, one in sorted(interrupts.cpus.items()) if cpu in cpus and _is_told(one)]
    links = [link_of(who, "reason", _text(one), depth=depth) for one in told]
    links += [
        link_of(
            thread,
            "reason",
            f"{thread.process} of the Linux kernel handles interrupts",
            share=min(ns / loss.ns, 1.0),
            ns_per_s=facts.per_second(ns),
            depth=depth,
        )
        for thread, ns in threads
    ]
    where = f"CPU{'s' if len(cpus) > 1 else ''} {list_of(cpus)}" if cpus else "its CPUs"
    kinds = Counter[str]()
    for one in told:
        kinds.update(_frequent(one))
    unknown = () if kinds else ("which interrupts these are: see /proc/softirqs and /proc/interrupts",)
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} loses CPU time to interrupts on {where}",
        links=tuple(links),
        fixes=tuple(_fixes(facts, who, cpus, interrupts, kinds)),
        confidence=SURE,
        unknown=(*unknown, "which process gets the packets or requests that cause these interrupts"),
    )


def _is_told(cpu: CpuInterrupts) -> bool:
    return cpu.ns >= LEAST_CPU * cpu.wall_ns > 0


def _frequent(cpu: CpuInterrupts) -> dict[str, int]:
    """Returns the kinds of interrupts that are frequent on a CPU, the most frequent one first."""
    most = max((count for _, count in cpu.kinds), default=0)
    return {name: count for name, count in cpu.kinds if count >= FREQUENT * most}


def _text(cpu: CpuInterrupts) -> str:
    kinds = ", ".join(_frequent(cpu))
    most = f", most of them {kinds}" if kinds else ""
    return f"CPU {cpu.cpu} spends {cpu.ns / cpu.wall_ns:.0%} of its time in interrupts{most}"


def _fixes(facts: Facts, who: Who, cpus: set[int], interrupts: Interrupts, kinds: Counter[str]) -> list[Fix]:
    process = facts.process(who.pid)
    mine = cpus_of(process.allowed) if process is not None else frozenset()
    fixes = []
    requested = next((kind for kind, _ in kinds.most_common() if kind.startswith("IRQ ")), "")
    elsewhere = interrupts.quiet - mine or interrupts.quiet - cpus
    if requested and elsewhere:
        number, target = requested.split()[1], list_of(elsewhere)
        fixes.append(
            Fix(
                f"move {requested} to CPUs {target}; if irqbalance runs, ban CPUs {list_of(cpus)} there "
                "(IRQBALANCE_BANNED_CPULIST), so that it does not move the interrupt back",
                f"echo {target} > /proc/irq/{number}/smp_affinity_list",
            )
        )
    if "NET_RX" in kinds:
        fixes.append(
            Fix(
                f"see which network interfaces steer packets to CPUs {list_of(cpus)} (RPS: bit masks), and "
                "take these CPUs out",
                "grep . /sys/class/net/*/queues/rx-*/rps_cpus",
                look=True,
            )
        )
    room = (interrupts.quiet & cpuset_of(facts, who.tenant) or interrupts.quiet) - cpus
    if room:
        where = list_of(room)
        text = f"run {named(facts, who)} on CPUs {where}, which have few interrupts"
        fixes.append(Fix(text, commands.move_to_cpus(who.pid, where)))
    return fixes or [Fix("see which interrupts its CPUs get", "watch -d -n1 cat /proc/softirqs", look=True)]


CAUSES: Final = (
    HostCause(
        Cause(
            "interrupts",
            "CPU taken by interrupts",
            "interrupts and softirqs, as for network packets, run on the CPUs of the threads",
            Telling("interrupts its CPUs", "loses its CPUs to interrupts", parts=("running", "runqueue")),
        ),
        by_interrupts,
    ),
)
