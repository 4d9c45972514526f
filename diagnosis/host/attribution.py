"""Attributes each ns that a process lost on the host to one root cause.

A wait of a calling thread is followed to the process that ended it. If that is a worker, its own time says
why it was late: what it waited for, in the proportions of its split, and so on for a few steps. A worker that
itself waits for the caller, or whose waits have no known end, is not the cause of the delay.

A wait that no known process ends is reported only of a program whose baseline shows that it is always at
work, because a wait for new work looks the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stalltop.diagnosis.facts import Facts, Row
from stalltop.diagnosis.host import block, memory, processors
from stalltop.diagnosis.host.sockets import loses_segments
from stalltop.model.devices.labels import UNKNOWN
from stalltop.model.evidence import HOST_GAP, HOST_LAYER
from stalltop.model.families import Family, kind_of
from stalltop.model.row_key import RowKey

MOSTLY_CHARGED: Final = 0.5
"""If more than this part of a wait for a CPU has no culprit, that part is reported too, if no other loss is
larger."""
CHANGED_WORKER: Final = 0.2
"""Part of a worker's time on unusual things from which on these are why it is late."""
MOST_LINKS: Final = 3
"""Maximum number of workers followed in a row: as many as the kernel side follows."""
BUSY_WORKER: Final = 0.5
"""Part of a worker's time spent on work, or on waits with a known reason, below which the worker itself waits
for work."""
WAKEABLE: Final = ("lock", "process", "network")
"""Waits that another process ends."""
SELDOM_WAITS: Final = 0.2
"""Part of the time between calls that a program usually waits for an unknown reason, below which it counts as
always at work. A server with capacity to spare waits for work for longer."""
_WAITS: Final = ("disk", "memory", *WAKEABLE, "other")
_HANDED_OVER: Final = (Family.SYNC, Family.COLLECTIVE)


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
    """Rows in which it was lost."""
    parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Parts of their split in which it was lost."""
    paths: dict[tuple[Who, ...], float] = field(default_factory=lambda: defaultdict(float))
    """Workers for which the process waited, the nearest one first; empty if it waited itself."""
    last_parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Parts of the split of the last of these workers, or else of the victim."""
    culprits: dict[Who, float] = field(default_factory=lambda: defaultdict(float))
    """Culprits that took it, as far as they are known."""
    sure_ns: float = 0.0
    """Part of it that is directly measured. A caller waits for one result of a worker, but only the sum over
    all results of the worker is known."""

    @property
    def sure(self) -> float:
        """Returns the part of it that is directly measured, 0 to 1."""
        return min(self.sure_ns / self.ns, 1.0) if self.ns else 0.0

    @property
    def path(self) -> tuple[Who, ...]:
        """Returns the workers through which most of it was lost."""
        return max(self.paths, key=lambda path: self.paths[path], default=())

    @property
    def last(self) -> Who:
        """Returns the process at the root: the last worker, or the victim."""
        return self.path[-1] if self.path else self.victim


class _Wait(NamedTuple):
    """Origin of lost time."""

    effect: RowKey
    part: str
    path: tuple[Who, ...] = ()
    sure: float = 1.0
    """Part of the time of the workers on the path that was spent in the same way."""

    @property
    def victim(self) -> Who:
        """Returns the process that makes the calls."""
        return Who(self.effect.tenant, self.effect.pid, self.effect.process)


class _Late(NamedTuple):
    """A wait of ``who`` for a CPU."""

    wait: _Wait
    who: Who
    ns: float
    by: Mapping[Who, float]
    """Processes that had the CPU, as far as they are known."""

    @property
    def charged_ns(self) -> float:
        """Returns the part that has a known culprit."""
        return min(sum(self.by.values()), self.ns)


class Attribution:
    """Computes all losses of one window."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._blamed: defaultdict[tuple[int, str, str, str, str], dict[Who, float]] = defaultdict(dict)
        """Culprits by process, layer, operation, device and part."""
        for charge in facts.window.evidence.charges:
            by = self._blamed[charge.pid, charge.layer, charge.operation, charge.device, charge.kind]
            who = Who(charge.culprit_tenant, charge.culprit_pid, charge.culprit_process)
            by[who] = by.get(who, 0.0) + charge.ns
        self._losses: dict[tuple[int, str], Loss] = {}
        """Losses by process and cause."""
        self._pinned: dict[int, bool] = {}
        self._late: list[_Late] = []
        self._victim = Who("", 0, "")
        """The process whose waits are being followed."""

    def losses(self) -> list[Loss]:
        """Returns what each process that makes calls lost, by root cause."""
        self._losses, self._late = {}, []
        for pid in self._facts.callers:
            self._follow(pid)
        self._settle()
        return list(self._losses.values())

    def _follow(self, pid: int) -> None:
        rows = [row for row in self._facts.rows_of(pid) if row.key.outermost or row.key.operation == HOST_GAP]
        if not rows:
            return
        key = rows[0].key
        self._victim = Who(key.tenant, key.pid, key.process)
        for row in rows:
            self._waits_for_cpu(row)
            for part in _WAITS:
                if row.split_ns.get(part) and (ns := row.beyond_usual(part) * self._facts.within(row)) > 0:
                    self._wait(row, part, ns)

    def _charged(self, row: Row, part: str) -> Mapping[Who, float]:
        """Returns the culprits of that part of a row's time, with their ns."""
        key = row.key
        own: Mapping[Who, float] = {}
        if key.device:
            own = self._blamed.get((key.pid, key.layer, key.operation, key.device, part), {})
        # Charges without a device are divided among the rows of the operation in proportion to their waits.
        of_all = self._blamed.get((key.pid, key.layer, key.operation, UNKNOWN, part), {})
        if not of_all:
            return own
        alike = [
            other.split_ns.get(part, 0)
            for other in self._facts.rows_of(key.pid)
            if other.key._replace(device=key.device) == key
        ]
        # A call that is still open is charged already, but is in no row yet.
        share = row.split_ns.get(part, 0) / sum(alike) if any(alike) else 1 / len(alike)
        return {who: own.get(who, 0.0) + share * of_all.get(who, 0.0) for who in {**own, **of_all}}

    def _waits_for_cpu(self, row: Row) -> None:
        """Adds the time without a CPU. Charges count while it happens, the row only when a call or gap ends:
        the larger of both is taken, so that long steps do not hide it."""
        by = self._charged(row, "runqueue")
        ns = max(row.split_ns.get("runqueue", 0) * self._facts.within(row), sum(by.values()))
        ns = min(ns, self._facts.wall_ns(row.key.pid))
        if ns > 0:
            self._late.append(_Late(_Wait(row.key, "runqueue"), self._victim, ns, _scaled(by, ns)))

    def _wait(self, row: Row, part: str, ns: float) -> None:
        wait = _Wait(row.key, part)
        if part not in WAKEABLE:
            if not self._held_up(wait, self._victim, part, ns, {}):
                self._unexplained(row, wait, ns)
            return
        left = ns
        for who, lost in _scaled(self._charged(row, part), ns).items():
            # The thread that hands over by a futex is known, even if that is not a fault.
            if who.pid and (self._woken(row, wait, who, lost) or part == "lock"):
                left -= lost
        if part == "network" and loses_segments(self._facts, row.key.pid):
            self._lost("tcp_retransmits", wait, part, left, {})
        else:
            self._unexplained(row, wait, left)

    def _unexplained(self, row: Row, wait: _Wait, ns: float) -> None:
        """Attributes ``ns`` without a known culprit: it is lost if the program is known to be always at
        work."""
        usual = row.usual_ns
        if row.key.operation != HOST_GAP or usual is None or row.normal_p99_ns is None:
            return
        idle = sum(usual.get(part, 0.0) for part in (*WAKEABLE, "sleep", "other"))
        if idle < SELDOM_WAITS * sum(usual.values()):
            self._lost("unexplained_wait", wait, wait.part, ns, {})

    def _woken(self, row: Row, wait: _Wait, who: Who, ns: float) -> bool:
        """The caller waited until ``who`` woke it. Returns whether that explains the wait."""
        if wait.part != "lock":
            return self._works_for(who) and self._work(wait, who, ns)
        if self._hands_over(who) and self._work(wait, who, ns):
            return True
        if not self._is_lock(row, who):
            return False
        self._lost("lock_contention", wait, wait.part, ns, {who: ns})
        return True

    def _is_lock(self, row: Row, who: Who) -> bool:
        """Returns whether a futex that ``who`` released is a lock. Other threads hand over results in the
        same way: a driver's thread when the device is done, an autograd engine's when the backward pass is.
        For these, only time beyond the usual is evidence."""
        if who.pid != self._victim.pid and not self._is_child(who):
            return True
        if row.key.layer == HOST_LAYER:
            return row.usual_ns is not None
        return kind_of(row.key.layer, row.key.operation).family not in _HANDED_OVER

    def _hands_over(self, who: Who) -> bool:
        """Returns whether a wait that looks like one for a lock may be one for a worker's result."""
        work = self._facts.work_of(who.pid)
        if work is None or who.pid != self._victim.pid:
            return work is not None and self._is_child(who)
        # A thread of the same process that itself mostly waits does not hold a lock.
        waits = sum(work.share(part) for part in ("disk", "process", "network", "memory"))
        return waits >= BUSY_WORKER

    def _is_child(self, who: Who) -> bool:
        worker = self._facts.process(who.pid)
        return worker is not None and worker.parent_pid == self._victim.pid

    def _works_for(self, who: Who) -> bool:
        return who.tenant == self._victim.tenant or self._is_child(who)

    def _work(self, wait: _Wait, worker: Who, ns: float) -> bool:
        """Attributes ``ns`` that were spent waiting for ``worker`` to the reasons why it was late. Returns
        False if its own time does not show why."""
        work = self._facts.work_of(worker.pid)
        if work is None or worker in wait.path or len(wait.path) >= MOST_LINKS:
            return False
        nearer = {self._victim.pid, *(who.pid for who in wait.path)}
        within = self._facts.within(work)
        busy: dict[str, float] = {}
        others: dict[str, Mapping[Who, float]] = {}
        turns = 0.0
        for part in ("running", "runqueue", "disk", "memory", *WAKEABLE):
            part_ns = work.split_ns.get(part, 0) * within
            by = _scaled(self._charged(work, part), part_ns)
            if part in WAKEABLE:
                in_turn = sum(lost for who, lost in by.items() if who.pid in nearer)
                turns += in_turn
                by = {who: lost for who, lost in by.items() if who.pid and who.pid not in nearer}
                lossy = part == "network" and loses_segments(self._facts, worker.pid)
                part_ns = part_ns - in_turn if lossy else sum(by.values())
            if part_ns > 0:
                busy[part], others[part] = part_ns, by
        active = sum(busy.values())
        if active <= 0 or active < BUSY_WORKER * (work.total_ns * within - turns):
            return False
        weights = _late_by(work, busy)
        total = sum(weights.values())
        part_of = min(ns, active) / total
        for part, weight in weights.items():
            by = _scaled(others[part], weight)
            on = wait._replace(path=(*wait.path, worker), sure=wait.sure * weight / total)
            self._work_part(on, worker, part, weight * part_of, {w: lost * part_of for w, lost in by.items()})
        return True

    def _work_part(self, wait: _Wait, worker: Who, part: str, ns: float, by: Mapping[Who, float]) -> None:
        if part == "running":
            self._lost("loader_cpu", wait, part, ns, {worker: ns})
        elif part == "lock" and worker.pid != self._victim.pid:
            self._lost("loader_lock", wait, part, ns, by)
        elif part in WAKEABLE:
            told = sum(lost for who, lost in by.items() if self._work(wait, who, lost))
            if part == "network" and loses_segments(self._facts, worker.pid):
                self._lost("tcp_retransmits", wait, part, ns - told, {})
        else:
            self._held_up(wait, worker, part, ns, by)

    def _held_up(self, wait: _Wait, who: Who, part: str, ns: float, by: Mapping[Who, float]) -> bool:
        """Attributes a wait of ``who``, the caller or a worker, for something that no other process has to
        give. Returns whether the reason is known."""
        if part == "runqueue":
            self._late.append(_Late(wait, who, ns, by))
            return True
        cause = ""
        if part == "disk":
            cause = "loader_disk" if wait.path else "slow_disk"
            if memory.thrashes(self._facts, who.tenant, who.pid) and not block.loaded_by_others(
                self._facts, who.tenant, who.pid
            ):
                cause = "reclaim"
        elif part == "memory":
            cause = memory.cause_of_wait(self._facts, who.tenant, who.pid)
        if cause:
            self._lost(cause, wait, part, ns, {})
        return bool(cause)

    def _settle(self) -> None:
        """Attributes waits for CPUs. Runs at the end, because the time that a quota took is known only for a
        tenant as a whole."""
        by_tenant: defaultdict[str, list[_Late]] = defaultdict(list)
        for late in self._late:
            by_tenant[late.who.tenant].append(late)
        nobodys: defaultdict[Who, list[tuple[_Late, float]]] = defaultdict(list)
        for tenant, waits in by_tenant.items():
            stopped = processors.throttled_ns(self._facts, tenant)
            of_charged = self._stopped_share(tenant, waits, stopped) if stopped else 0.0
            for late in waits:
                uncharged = late.ns - late.charged_ns
                if stopped:
                    by_quota = uncharged + of_charged * late.charged_ns
                    self._lost("cfs_throttling", late.wait, "runqueue", by_quota, {})
                elif uncharged > MOSTLY_CHARGED * late.ns:
                    nobodys[late.wait.victim].append((late, uncharged))
                self._charge(late, 1.0 - of_charged)
        for victim, found in nobodys.items():
            others = sum(loss.ns for (pid, _), loss in self._losses.items() if pid == victim.pid)
            if sum(ns for _, ns in found) > others:
                for late, ns in found:
                    cause = "cpu_pinning" if self._is_pinned(late.who.pid) else "cpu_contention"
                    self._lost(cause, late.wait, "runqueue", ns, {})

    def _stopped_share(self, tenant: str, waits: list[_Late], stopped_ns: float) -> float:
        """Returns the part of the charged time in which a quota would have stopped ``waits`` anyway.

        Time in which nobody had the CPU belongs to the quota; what is left of the quota's time is spread over
        the rest.
        """
        charged = sum(late.charged_ns for late in waits)
        if not charged:
            return 0.0
        # The Linux kernel counts by CPU: of two threads that wait for one CPU it counts one.
        pids = {late.who.pid for late in waits}
        threads = sum(self._facts.wall_ns(pid) for pid in pids) / (self._facts.seconds * 1e9)
        cpus = processors.cpus_for(self._facts, tenant)
        most = stopped_ns * max(threads / cpus, 1.0) if cpus else stopped_ns
        left = most - sum(late.ns - late.charged_ns for late in waits)
        return min(max(left, 0.0) / charged, 1.0)

    def _charge(self, late: _Late, part: float) -> None:
        """Charges ``part`` of a wait for a CPU to the processes that had it."""
        who = late.who
        for other, lost in late.by.items():
            if other.pid == self._facts.own_pid != 0:
                cause = "tracer"
            elif self._is_pinned(who.pid):
                cause = "cpu_pinning"
            elif other.tenant != who.tenant:
                cause = "cpu_contention"
            else:
                cause = "loader_cpu" if late.wait.path else "own_threads"
            self._lost(cause, late.wait, "runqueue", lost * part, {other: lost * part})

    def _is_pinned(self, pid: int) -> bool:
        """Returns whether the process waits for its CPUs while CPUs that it may not use are idle."""
        pinned = self._pinned.get(pid)
        if pinned is None:
            pinned = self._pinned[pid] = bool(processors.idle_elsewhere(self._facts, pid))
        return pinned

    def _lost(self, cause: str, wait: _Wait, last_part: str, ns: float, by: Mapping[Who, float]) -> None:
        if ns <= 0:
            return
        victim = wait.victim
        loss = self._losses.setdefault((victim.pid, cause), Loss(cause, victim))
        loss.ns += ns
        loss.effects[wait.effect] += ns
        loss.parts[wait.part] += ns
        loss.paths[wait.path] += ns
        loss.last_parts[last_part] += ns
        loss.sure_ns += ns * wait.sure
        for who, lost in by.items():
            loss.culprits[who] += lost


def _late_by(work: Row, busy: Mapping[str, float]) -> Mapping[str, float]:
    """Returns the part of a worker's time, out of ``busy``, that makes it late: what is beyond the usual. If
    that is little, the worker behaves as always, and all of ``busy`` makes it late."""
    if work.usual_ns is None:
        return busy
    usual = {part: work.usual_ns.get(part, 0.0) * work.calls for part in busy}
    beyond = {part: ns - usual[part] for part, ns in busy.items() if ns > usual[part]}
    return beyond if sum(beyond.values()) >= CHANGED_WORKER * sum(busy.values()) else busy


def _scaled(by: Mapping[Who, float], most: float) -> Mapping[Who, float]:
    """Returns ``by``, scaled to a sum of at most ``most``."""
    total = sum(by.values())
    if total <= most or total <= 0:
        return by
    return {who: ns * most / total for who, ns in by.items()}
