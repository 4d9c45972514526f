"""Finds and describes CPU time that interrupts took from processes.

The Linux kernel says how long interrupts had each CPU, but not from which thread they took this time. A
process is said to have lost only a lower bound: the time of interrupts on its CPU less the time of all other
threads there, as if those had been interrupted first. They may have been, because packets that a program
sends to its own host are mostly handled in the time of that program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host import commands
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.host.losses import Loss, Who
from stalltop.diagnosis.host.processors import cpuset_of
from stalltop.diagnosis.host.wording import SMALLEST_SHARE, named, ranked
from stalltop.diagnosis.links import link_of
from stalltop.model.chain import Fix
from stalltop.model.cpu_list import cpus_of, list_of
from stalltop.model.thread_evidence import CpuInterrupts

SURE: Final = 0.8
KTHREADD: Final = 2
"""PID of the parent of all threads of the Linux kernel."""
_THREADS: Final = ("ksoftirqd/", "irq/")
"""Beginnings of the names of kernel threads that handle interrupts."""
LEAST_CPU: Final = 0.02
"""A CPU is named if it spends at least this part of its time in interrupts."""
FREQUENT: Final = 0.02
"""A kind of interrupt is named if it occurs at least this part as often as the most frequent kind on the CPU.
A network interface that is polled under load makes few interrupts for many softirqs."""
QUIET: Final = 0.05
"""Share of a CPU's time spent in interrupts below which the CPU is a good target for processes that
interrupts delay elsewhere."""


class Interrupts:
    """Interrupts of one window, and what they took."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        evidence = facts.window.evidence.threads
        self.cpus: Final = {one.cpu: one for one in evidence.interrupts}
        """Times by CPU; empty if no CPU had many interrupts."""
        self._placed: dict[int, Counter[int]] = {}
        for placed in evidence.placed:
            self._placed.setdefault(placed.pid, Counter())[placed.cpu] += placed.times
        self._taken: dict[int, Mapping[int, float]] = {}

    def taken(self, pid: int) -> Mapping[int, float]:
        """Returns, for each CPU, the least time that interrupts took there from the running time of a
        process, ns."""
        if not self.cpus:
            return {}
        if pid not in self._taken:
            running_ns = self._running_ns(pid)
            placed = self._placed.get(pid, Counter())
            found = {
                cpu: self._taken_on(self.cpus[cpu], running_ns * times / placed.total())
                for cpu, times in placed.items()
                if cpu in self.cpus
            }
            self._taken[pid] = {cpu: ns for cpu, ns in found.items() if ns > 0}
        return self._taken[pid]

    def share(self, pid: int) -> float:
        """Returns the part of the running time of a process that interrupts took, 0 to 1."""
        taken = sum(self.taken(pid).values())
        return taken / self._running_ns(pid) if taken else 0.0

    @cached_property
    def quiet(self) -> frozenset[int]:
        """CPUs with few interrupts."""
        return frozenset(cpu for cpu, one in self.cpus.items() if one.ns < QUIET * one.wall_ns)

    def _running_ns(self, pid: int) -> float:
        rows = (row for row in self._facts.rows_of(pid) if not row.key.nested)
        return sum(row.split_ns.get("running", 0) * self._facts.within(row) for row in rows)

    def _taken_on(self, cpu: CpuInterrupts, running_ns: float) -> float:
        """Returns how much interrupts took of ``running_ns``, the running time of a process on one CPU in the
        whole window, ns; not above 0 if nothing is proven."""
        # The times of the CPU may cover only a part of the window.
        own_ns = running_ns * min(cpu.wall_ns / (self._facts.seconds * 1e9), 1.0)
        others_ns = max(cpu.wall_ns - cpu.idle_ns - own_ns, 0.0)
        return min(cpu.ns - others_ns, own_ns)


def handles_interrupts(facts: Facts, who: Who) -> bool:
    """Returns whether a process is a thread of the Linux kernel that handles interrupts."""
    process = facts.process(who.pid)
    return who.process.startswith(_THREADS) and process is not None and process.parent_pid == KTHREADD


def by_interrupts(facts: Facts, loss: Loss) -> Description:
    """Describes a process from which interrupts take CPU time, directly or through kernel threads."""
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
        unknown=(*unknown, "for whom the packets or requests are that cause these interrupts"),
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
                "(IRQBALANCE_BANNED_CPULIST), or it moves it back",
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
        ),
        by_interrupts,
    ),
)
