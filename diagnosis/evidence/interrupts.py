"""Finds CPU time that interrupts took from processes.

The Linux kernel says how long interrupts had each CPU, but not from which thread they took this time. So only
a lower bound is computed for a process: the time of interrupts on the CPU, minus the time of all other
threads on that CPU. The bound assumes that interrupts took their time from the other threads first. This is
possible: packets that a program sends over the loopback interface, for example, are mostly handled in the
time of that program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Final

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who
from stalltop.model.thread_evidence import CpuInterrupts

KTHREADD: Final = 2
"""PID of the parent of all threads of the Linux kernel."""
_THREADS: Final = ("ksoftirqd/", "irq/")
"""Beginnings of the names of Linux kernel threads that handle interrupts."""
QUIET: Final = 0.05
"""A CPU that spends less than this share of its time in interrupts is suitable for processes that interrupts
delay on other CPUs."""


class Interrupts:
    """CPU time that the interrupts of one window took from processes."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        evidence = facts.window.evidence.threads
        self.cpus: Final = {one.cpu: one for one in evidence.interrupts}
        """By CPU number: records of the CPUs, which say how long each CPU handled interrupts and was idle.
        Empty if no CPU had many interrupts."""
        self._placed: dict[int, Counter[int]] = {}
        for placed in evidence.placed:
            self._placed.setdefault(placed.pid, Counter())[placed.cpu] += placed.times
        self._taken: dict[int, Mapping[int, float]] = {}

    def taken(self, pid: int) -> Mapping[int, float]:
        """Returns a lower bound, in ns by CPU, of the running time that interrupts took from a process."""
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
        """Returns a lower bound of the part of a process's running time that interrupts took, 0 to 1."""
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
        """Returns a lower bound of the ns that interrupts took from a process on one CPU. ``running_ns`` is
        the running time of the process on this CPU in the whole window. The result is 0 or negative if
        interrupts may have taken nothing."""
        # The record of the CPU may cover only a part of the window.
        own_ns = running_ns * min(cpu.wall_ns / (self._facts.seconds * 1e9), 1.0)
        others_ns = max(cpu.wall_ns - cpu.idle_ns - own_ns, 0.0)
        return min(cpu.ns - others_ns, own_ns)


def handles_interrupts(facts: Facts, who: Who) -> bool:
    """Returns whether a process is a thread of the Linux kernel that handles interrupts."""
    if not who.process.startswith(_THREADS):
        return False
    process = facts.process(who.pid)
    return process is not None and process.parent_pid == KTHREADD
