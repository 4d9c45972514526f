"""Attributes time that a thread lost without waiting for another thread: to a CPU, a disk, memory, interrupts
or sleep, or to the process that stopped the thread."""

from __future__ import annotations

from collections.abc import Mapping

from stalltop.diagnosis.attribution.charges import RowCharges, scaled
from stalltop.diagnosis.attribution.cpu_waits import CpuWaits, Late
from stalltop.diagnosis.attribution.losses import INTERRUPTED, Losses, Wait
from stalltop.diagnosis.attribution.threads import ThreadGraph
from stalltop.diagnosis.evidence import block, memory
from stalltop.diagnosis.evidence.interrupts import Interrupts
from stalltop.diagnosis.evidence.sockets import loses_segments
from stalltop.diagnosis.facts import Facts, Row
from stalltop.diagnosis.links import Who, who_of
from stalltop.model.thread_evidence import FSYNC


class Roots:
    """Adds lost time of one window to ``losses``, by the cause at its root."""

    def __init__(self, facts: Facts, graph: ThreadGraph, losses: Losses) -> None:
        self._facts = facts
        self._graph = graph
        self._losses = losses
        self._charges = RowCharges(facts)
        self._interrupts = Interrupts(facts)
        self._cpu_waits = CpuWaits(facts, losses)

    def waits_for_cpu(self, row: Row, who: Who) -> None:
        """Adds the time that threads of ``who`` waited for a CPU in ``row``.

        Charges are counted while a call lasts, but the row gets its time only when the call (or host gap)
        ends. The larger of the two figures is taken, so that waits within long calls are not missed.
        """
        by = self._charges.of(row, "runqueue")
        if not by and not row.split_ns.get("runqueue"):
            return
        ns = max(row.split_ns.get("runqueue", 0) * self._facts.within(row), sum(by.values()))
        ns = min(ns, self._facts.wall_ns(row.key.pid))
        if ns > 0:
            self._cpu_waits.add(Late(Wait(row.key, "runqueue"), who, ns, scaled(by, ns)))

    def interrupted_share(self, pid: int) -> float:
        """Returns a lower bound of the part of a process's running time that interrupts took, 0 to 1."""
        return self._interrupts.share(pid)

    def interrupted(self, row: Row) -> None:
        """Adds the part of the running time of ``row`` that interrupts took."""
        share = self._interrupts.share(row.key.pid)
        ns = min(row.beyond_usual("running"), share * row.split_ns.get("running", 0))
        wait = Wait(row.key, INTERRUPTED)
        self._losses.add("interrupts", wait, INTERRUPTED, ns * self._facts.within(row), {})

    def stopped(self, wait: Wait, pid: int, kind: str, ns: float, waker: Who | None = None) -> None:
        """Attributes ``ns`` in which process ``pid`` was stopped. ``kind``, one of ``HELD_BACK``, says in
        which way. The culprit is the process that stopped it or, if that is not known, ``waker``, which let
        it continue."""
        stop = self._graph.stop_of(pid, kind)
        who = who_of(stop.by) if stop is not None and stop.by.pid else waker
        self._losses.add("stopped", wait, kind, ns, {who: ns} if who is not None and who.pid else {})

    def own_time(self, wait: Wait, worker: Who, part: str, ns: float) -> None:
        """Attributes ``ns`` that a worker spent in ``part`` of its split while the caller waited for it."""
        if part == "running":
            interrupted = ns * self._interrupts.share(worker.pid)
            self._losses.add("interrupts", wait, INTERRUPTED, interrupted, {})
            self._losses.add("loader_cpu", wait, part, ns - interrupted, {worker: ns - interrupted})
        elif part == "sleep":
            self._losses.add("loader_sleep", wait, part, ns, {})
        else:
            row = self._facts.work_of(worker.pid)
            by = scaled(self._charges.of(row, part), ns) if row is not None else {}
            self.held_up(wait, worker, part, ns, by)

    def held_up(self, wait: Wait, who: Who, part: str, ns: float, by: Mapping[Who, float]) -> bool:
        """Attributes ``ns`` that ``who``, the caller or a worker, waited for a CPU, a disk or memory. ``by``
        has the ns of the known culprits. Returns False if no cause was found."""
        if part == "runqueue":
            self._cpu_waits.add(Late(wait, who, ns, by))
            return True
        cause = ""
        if part == "disk":
            in_fsync = ns * self._in_fsync(wait)
            self._losses.add("fsync", wait, part, in_fsync, {})
            ns -= in_fsync
            cause = "loader_disk" if wait.path else "slow_disk"
            if memory.thrashes(self._facts, who.tenant, who.pid) and not block.loaded_by_others(
                self._facts, who.tenant, who.pid
            ):
                cause = "reclaim"
        elif part == "memory":
            cause = memory.cause_of_wait(self._facts, who.tenant, who.pid)
        if cause:
            self._losses.add(cause, wait, part, ns, {})
        return bool(cause)

    def _in_fsync(self, wait: Wait) -> float:
        """Returns which part of waits for disks, 0 to 1, was spent in fsync. The waits are those of the last
        of ``wait.threads`` or, if there are none, of the caller."""
        if wait.threads:
            thread = wait.threads[-1]
            waits, work = self._graph.waits_of(thread, "disk"), self._graph.work_of(thread)
            disk_ns = work.split_ns["disk"] if work is not None else 0.0
        else:
            key = wait.effect
            waits = self._graph.of_row(key.pid, key.layer, key.operation, "disk")
            disk_ns = sum(
                row.split_ns.get("disk", 0) * self._facts.within(row) for row in self._facts.rows_alike(key)
            )
        fsync_ns = sum(edge.ns for edge in waits if edge.kind == FSYNC)
        return min(fsync_ns / disk_ns, 1.0) if disk_ns else 0.0

    def loses_segments(self, pid: int) -> bool:
        """Returns whether connections of a process lose segments again and again. Returns False for a process
        that is known to receive data only from this host: on a busy host, TCP retransmits segments of such
        connections although none was lost."""
        return not self._graph.is_local(pid) and loses_segments(self._facts, pid)

    def settle(self) -> None:
        """Attributes the waits for CPUs. Called after all of them were added."""
        self._cpu_waits.settle()
