"""Whose fault the time is that a process lost on the host: each ns of a wait goes to one root cause.

A wait of a thread that calls is followed to who ended it. Where that is a worker, its own time says why it
came late: what it waited for, in the proportions of its split, and so on for a few steps. A worker that waits
for the caller, or for nobody known, holds nobody up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from diagnosis.facts import Facts, Row
from diagnosis.families import Family, kind_of
from diagnosis.host import memory, processors
from model.evidence import HOST_GAP, HOST_LAYER
from model.window import RowKey

MOST_LINKS: Final = 3
"""Workers followed in a row: as many as the kernel side follows."""
BUSY_WORKER: Final = 0.5
"""A worker with less of its time spent on work, or on waits with a known reason, waits for work itself."""
UNUSUAL_LOCK: Final = 0.1
"""Threads of one process hand work to each other by the same calls that take locks. Where nothing else tells
them apart, waits count only as far as their part of the time exceeds the normal one by this much."""

WAKEABLE: Final = ("lock", "process", "network")
"""Waits that another process ends."""


class Who(NamedTuple):
    """One process."""

    tenant: str
    pid: int
    process: str


@dataclass(slots=True)
class Loss:
    """Time that one process lost through one cause, ns of the window."""

    cause: str
    victim: Who
    ns: float = 0.0
    effects: dict[RowKey, float] = field(default_factory=lambda: defaultdict(float))
    """In which of its rows."""
    parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """In which parts of their split."""
    paths: dict[tuple[Who, ...], float] = field(default_factory=lambda: defaultdict(float))
    """Which workers it waited for, the nearest one first; empty where it waited itself."""
    last_parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """What the last of these, or else the victim, spent it on."""
    culprits: dict[Who, float] = field(default_factory=lambda: defaultdict(float))
    """Who took it, as far as is known."""

    @property
    def path(self) -> tuple[Who, ...]:
        """The workers that most of it was waited for."""
        return max(self.paths, key=lambda path: self.paths[path], default=())

    @property
    def last(self) -> Who:
        """Who is held up at the root: the last worker, or the victim."""
        return self.path[-1] if self.path else self.victim


class _Wait(NamedTuple):
    """Where an ns of a root cause comes from."""

    effect: RowKey
    part: str
    path: tuple[Who, ...]


class Attribution:
    """All losses of one window."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._blamed: defaultdict[tuple[int, str, str, str], dict[Who, float]] = defaultdict(dict)
        """Process, layer, operation, part: who it is charged to."""
        for charge in facts.window.evidence.charges:
            by = self._blamed[charge.pid, charge.layer, charge.operation, charge.kind]
            who = Who(charge.culprit_tenant, charge.culprit_pid, charge.culprit_process)
            by[who] = by.get(who, 0.0) + charge.ns
        self._losses: dict[str, Loss] = {}
        self._victim = Who("", 0, "")

    def losses(self, pid: int) -> list[Loss]:
        """What a process that calls lost, by root cause."""
        rows = [row for row in self._facts.rows_of(pid) if row.key.outermost or row.key.operation == HOST_GAP]
        if not rows:
            return []
        key = rows[0].key
        self._losses = {}
        self._victim = Who(key.tenant, key.pid, key.process)
        for row in rows:
            for part, ns in self._waited(row):
                self._wait(row, part, ns)
        return list(self._losses.values())

    def _waited(self, row: Row) -> Iterator[tuple[str, float]]:
        """The parts of a row that may be lost time. Charges come as they happen, a row's time when a call or
        gap ends: whichever is more."""
        within = self._facts.within(row)
        wall = self._facts.wall_ns(row.key.pid)
        for part in ("runqueue", "disk", "memory", *WAKEABLE):
            ns = row.split_ns.get(part, 0) * within
            charged = sum(self._charged(row.key, part).values())
            ns = min(max(ns, charged), wall)
            if ns > 0:
                yield part, ns

    def _charged(self, key: RowKey, part: str) -> Mapping[Who, float]:
        return self._blamed.get((key.pid, key.layer, key.operation, part), {})

    def _wait(self, row: Row, part: str, ns: float) -> None:
        wait = _Wait(row.key, part, ())
        by = _scaled(self._charged(row.key, part), ns)
        if part in WAKEABLE:
            for who, lost in by.items():
                if who.pid:
                    self._woken(row, wait, who, lost)
            if part == "network":
                self._network(wait, ns)
        else:
            self._held_up(wait, self._victim, part, ns, by)

    def _woken(self, row: Row, wait: _Wait, who: Who, ns: float) -> None:
        """The caller waited until ``who`` woke it."""
        if wait.part == "lock":
            family = kind_of(row.key.layer, row.key.operation).family
            if family is Family.SYNC:
                return  # a thread of the driver tells that the device is done
            if not self._hands_over(who):
                unusual = self._unusual(row, wait.part)
                if who.pid == self._victim.pid and row.key.layer == HOST_LAYER:
                    ns = min(ns, unusual)
                self._lost("lock_contention", wait, wait.part, ns, {who: ns})
                return
        if self._works_for(who):
            self._work(wait, who, ns)

    def _hands_over(self, who: Who) -> bool:
        """Whether a wait that looks like one for a lock is one for a worker's result."""
        work = self._facts.work_of(who.pid)
        if work is None:
            return False
        if who.pid != self._victim.pid:
            return self._is_child(who)
        # A thread of the same process: one that itself waits for something is no holder of a lock.
        waits = sum(work.share(part) for part in ("disk", "process", "network", "memory"))
        return waits >= BUSY_WORKER

    def _is_child(self, who: Who) -> bool:
        worker, victim = self._facts.process(who.pid), self._facts.process(self._victim.pid)
        if worker is None or worker.parent_pid <= 1:
            return False
        siblings = victim is not None and worker.parent_pid == victim.parent_pid
        return worker.parent_pid == self._victim.pid or siblings

    def _works_for(self, who: Who) -> bool:
        return who.tenant == self._victim.tenant or self._is_child(who)

    def _unusual(self, row: Row, part: str) -> float:
        """Time of ``part`` beyond what is normal for the row, ns; nothing before the normal is known."""
        if row.normal_shares is None:
            return 0.0
        excess = row.share(part) - row.normal_shares.get(part, 0.0)
        return excess * row.total_ns * self._facts.within(row) if excess >= UNUSUAL_LOCK else 0.0

    def _work(self, wait: _Wait, worker: Who, ns: float) -> None:
        """``ns`` of the effect were waited for ``worker``: why did it come so late?"""
        work = self._facts.work_of(worker.pid)
        if work is None or worker in wait.path or len(wait.path) >= MOST_LINKS:
            return
        nearer = {self._victim.pid, *(who.pid for who in wait.path)}
        within = self._facts.within(work)
        busy: dict[str, float] = {}
        others: dict[str, Mapping[Who, float]] = {}
        turns = 0.0
        for part in ("running", "runqueue", "disk", "memory", *WAKEABLE):
            part_ns = work.split_ns.get(part, 0) * within
            by = _scaled(self._charged(work.key, part), part_ns)
            if part in WAKEABLE:
                turns += sum(lost for who, lost in by.items() if who.pid in nearer)
                by = {who: lost for who, lost in by.items() if who.pid and who.pid not in nearer}
                part_ns = sum(by.values())
            if part_ns > 0:
                busy[part], others[part] = part_ns, by
        active = sum(busy.values())
        if active <= 0 or active < BUSY_WORKER * (work.total_ns * within - turns):
            return
        part_of = min(ns, active) / active
        on = wait._replace(path=(*wait.path, worker))
        for part, part_ns in busy.items():
            by = {who: lost * part_of for who, lost in others[part].items()}
            self._work_part(on, worker, part, part_ns * part_of, by)

    def _work_part(self, wait: _Wait, worker: Who, part: str, ns: float, by: Mapping[Who, float]) -> None:
        if part == "running":
            self._lost("loader_cpu", wait, part, ns, {worker: ns})
        elif part == "lock" and worker.pid != self._victim.pid:
            self._lost("loader_lock", wait, part, ns, by)
        elif part in WAKEABLE:
            for who, lost in by.items():
                self._work(wait, who, lost)
        else:
            self._held_up(wait, worker, part, ns, by)

    def _held_up(self, wait: _Wait, who: Who, part: str, ns: float, by: Mapping[Who, float]) -> None:
        """``who``, the caller or a worker, waited for something that no other process has to give."""
        if part == "runqueue":
            self._ran_late(wait, who, ns, by)
        elif part == "disk":
            cause = "loader_disk" if wait.path else "slow_disk"
            if memory.thrashes(self._facts, who.tenant):
                cause = "reclaim"
            self._lost(cause, wait, part, ns, {})
        elif part == "memory":
            cause = memory.cause_of_wait(self._facts, who.tenant, who.pid)
            if cause:
                self._lost(cause, wait, part, ns, {})

    def _ran_late(self, wait: _Wait, who: Who, ns: float, by: Mapping[Who, float]) -> None:
        """``who`` was ready to run and had no CPU."""
        part = "runqueue"
        uncharged = max(ns - sum(by.values()), 0.0)
        stopped = processors.throttled_ns(self._facts, who.tenant)
        claimed = min(ns, max(stopped, uncharged)) if stopped > 0 else 0.0
        if claimed > 0:
            self._lost("cfs_throttling", wait, part, claimed, {})
            left = 1.0 - claimed / ns
            by = {other: lost * left for other, lost in by.items()}
        own = {other: lost for other, lost in by.items() if other.tenant == who.tenant}
        tracer = {other: lost for other, lost in by.items() if other.pid == self._facts.own_pid != 0}
        others = {other: lost for other, lost in by.items() if other not in own and other not in tracer}
        own_cause = "loader_cpu" if wait.path else "own_threads"
        if processors.pinned_apart_from_idle(self._facts, who.pid):
            own_cause = other_cause = "cpu_pinning"
        else:
            other_cause = "cpu_contention"
        self._lost("tracer", wait, part, sum(tracer.values()), tracer)
        self._lost(own_cause, wait, part, sum(own.values()), own)
        self._lost(other_cause, wait, part, sum(others.values()), others)

    def _network(self, wait: _Wait, ns: float) -> None:
        """Waits for the network count where segments had to be sent again."""
        process = self._facts.process(self._victim.pid)
        if process is not None and process.retransmits_v4 + process.retransmits_v6 > 0:
            nobody = ns - sum(_scaled(self._charged(wait.effect, wait.part), ns).values())
            self._lost("tcp_retransmits", wait, wait.part, nobody, {})

    def _lost(self, cause: str, wait: _Wait, last_part: str, ns: float, by: Mapping[Who, float]) -> None:
        if ns <= 0:
            return
        loss = self._losses.get(cause)
        if loss is None:
            loss = self._losses[cause] = Loss(cause, self._victim)
        loss.ns += ns
        loss.effects[wait.effect] += ns
        loss.parts[wait.part] += ns
        loss.paths[wait.path] += ns
        loss.last_parts[last_part] += ns
        for who, lost in by.items():
            loss.culprits[who] += lost


def _scaled(by: Mapping[Who, float], most: float) -> Mapping[Who, float]:
    """``by`` with a sum of at most ``most``."""
    total = sum(by.values())
    if total <= most or total <= 0:
        return by
    return {who: ns * most / total for who, ns in by.items()}
