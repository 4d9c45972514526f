"""Attributes each ns that a process lost on the host to one root cause.

A wait of a calling thread is followed to the thread that ended it. What that thread did during the wait is
why it came late: either its own work, or waits of its own. Its waits are followed in turn for a few steps,
through pipes, sockets, conditions and locks, also into other processes. A thread that itself waits for the
caller, or whose waits have no known end, is not the cause of the delay.

A process that runs the same command as the caller, and makes calls too, is another rank of the caller's job.
To the caller, the cause is that this rank is late; why the rank is late is found for the rank itself.

A caller that sleeps briefly again and again, while a child process computes, polls for the result of that
child.

A wait that no known thread ends is reported only for a program whose baseline shows that it is always at
work, because a program that waits for new work looks the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from stalltop.diagnosis.facts import Facts, Row
from stalltop.diagnosis.host import block, memory, polling
from stalltop.diagnosis.host.cpu_waits import CpuWaits, Late
from stalltop.diagnosis.host.interrupts import Interrupts
from stalltop.diagnosis.host.locks import PASSES_ON
from stalltop.diagnosis.host.losses import Loss, Losses, Wait, Who
from stalltop.diagnosis.host.rank_waits import RankWaits
from stalltop.diagnosis.host.sockets import loses_segments
from stalltop.diagnosis.host.threads import Edge, ThreadGraph
from stalltop.diagnosis.host.wording import INTERRUPTED
from stalltop.model.devices.labels import UNKNOWN
from stalltop.model.evidence import HOST_GAP, HOST_LAYER, ProcessUse
from stalltop.model.families import Family, kind_of
from stalltop.model.row_key import RowKey
from stalltop.model.thread_evidence import ENDED, FSYNC, HAND_OVER, HELD_BACK, TIMEOUT, Stop, ThreadId

CHANGED_WORKER: Final = 0.2
"""If at least this part of a worker's busy time is beyond the usual, the worker is late because of what is
beyond the usual; otherwise all of its busy time makes it late."""
MOST_LINKS: Final = 6
"""Maximum number of threads followed in a row: as many as the eBPF programs follow."""
LEAST_FOLLOWED: Final = 0.001
"""A wait is followed only if it takes at least this part of the window: threads of a pool wake each other in
so many ways that following all of them would take hours."""
BUSY_WORKER: Final = 0.5
"""A worker that spends less than this part of its time on work, or on waits with a known reason, itself waits
for work."""
WAKEABLE: Final = ("lock", "network", "process")
"""Parts of the split with waits that another thread ends."""
SELDOM_WAITS: Final = 0.2
"""A program that usually waits for unknown reasons for less than this part of the time between its calls
counts as always at work. A server with capacity to spare waits for work for longer."""
_WAITS: Final = ("disk", "memory", *WAKEABLE, "other")
_HANDED_OVER: Final = (Family.SYNC, Family.COLLECTIVE)


class Attribution:
    """Computes all losses of one window."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._graph = ThreadGraph(facts)
        self._blamed: defaultdict[tuple[int, str, str, str, str], dict[Who, float]] = defaultdict(dict)
        """Culprits, with the ns that they took, by process, layer, operation, device and part."""
        for charge in facts.window.evidence.charges:
            by = self._blamed[charge.pid, charge.layer, charge.operation, charge.device, charge.kind]
            who = Who(charge.culprit_tenant, charge.culprit_pid, charge.culprit_process)
            by[who] = by.get(who, 0.0) + charge.ns
        self._startups = self._graph.startups()
        """Start-up time of processes that started in the window, ns, less what is attributed already."""
        self._losses = Losses()
        self._cpu_waits = CpuWaits(facts, self._losses)
        self._interrupts = Interrupts(facts)
        self._victim = Who("", 0, "")
        """The process whose waits are being followed."""
        self._rank_waits = RankWaits(self._losses)

    def losses(self) -> list[Loss]:
        """Returns what each process that makes calls lost, by root cause. Called once."""
        for pid in self._facts.callers:
            self._follow(pid)
        for stop in self._graph.stops:
            self._still_stopped(stop)
        self._rank_waits.settle()
        self._cpu_waits.settle()
        return list(self._losses)

    def _follow(self, pid: int) -> None:
        rows = [row for row in self._facts.rows_of(pid) if row.key.outermost or row.key.operation == HOST_GAP]
        if not rows:
            return
        key = rows[0].key
        self._victim = Who(key.tenant, key.pid, key.process)
        for row in rows:
            self._waits_for_cpu(row)
            self._interrupted(row)
            for part in _WAITS:
                if row.split_ns.get(part) and (ns := row.beyond_usual(part) * self._facts.within(row)) > 0:
                    self._wait(row, part, ns)
            if row.key.operation == HOST_GAP and row.split_ns.get("sleep"):
                self._polls(row)

    def _polls(self, row: Row) -> None:
        """Attributes short sleeps of a caller between its calls to its children that compute meanwhile."""
        key = row.key
        busy = polling.children(
            self._facts, key.pid, self._graph.of_row(key.pid, key.layer, key.operation, "sleep")
        )
        if not busy:
            return
        ns = row.beyond_usual("sleep") * self._facts.within(row)
        busiest = max(busy, key=lambda who: busy[who])
        wait = Wait(key, "sleep", path=(busiest,), sure=polling.SURE * busy[busiest])
        self._losses.add(
            "loader_cpu",
            wait,
            "running",
            ns,
            {who: ns * share / sum(busy.values()) for who, share in busy.items()},
        )

    def _still_stopped(self, stop: Stop) -> None:
        """Adds the time of a process that is still stopped. No row has this time yet, because a wait is
        counted when it ends."""
        stopped = self._facts.process(stop.pid)
        if stopped is None or not stop.still_ns:
            return
        caller: ProcessUse = stopped
        path: tuple[Who, ...] = ()
        if stopped.link:
            parent = self._facts.process(stopped.parent_pid)
            if parent is None or parent.link or self._facts.rows_of(parent.pid):
                return  # Nobody is known to wait for this worker.
            caller, path = parent, (Who(stopped.tenant, stopped.pid, stopped.process),)
        calls = (call.row for call in self._facts.window.open_calls if call.pid == caller.pid)
        row = next(calls, (caller.tenant, caller.pid, caller.process, HOST_LAYER, HOST_GAP))
        wait = Wait(RowKey(self._facts.window.host, *row), "other", path)
        ns = stop.still_ns - self._losses.of(caller.pid, "stopped")
        self._losses.add("stopped", wait, stop.kind, ns, self._stopper(stop.pid, stop.kind, ns))

    def _stopper(self, pid: int, kind: str, ns: float, waker: Who | None = None) -> Mapping[Who, float]:
        """Returns the process to blame for ``ns`` of a stop: the one that stopped ``pid`` or, if that is not
        known, ``waker``, which ended the stop. Returns an empty mapping if neither is known."""
        stop = self._graph.stop_of(pid, kind)
        who = _who(stop.by) if stop is not None and stop.by.pid else waker
        return {who: ns} if who is not None and who.pid else {}

    def _share(self, row: Row, part: str) -> float:
        """Returns the part of an operation's waits in ``part`` that belongs to ``row``: an operation has a
        row for each device."""
        key = row.key
        alike = [
            other.split_ns.get(part, 0)
            for other in self._facts.rows_of(key.pid)
            if other.key._replace(device=key.device) == key
        ]
        # A call that is still open has charges, but no row has its time yet: then all rows get equal parts.
        return row.split_ns.get(part, 0) / sum(alike) if any(alike) else 1 / len(alike)

    def _charged(self, row: Row, part: str) -> Mapping[Who, float]:
        """Returns the culprits of ``part`` of a row's time, with their ns."""
        key = row.key
        own: Mapping[Who, float] = {}
        if key.device:
            own = self._blamed.get((key.pid, key.layer, key.operation, key.device, part), {})
        # Charges without a device are divided among the rows of the operation in proportion to their waits.
        of_all = self._blamed.get((key.pid, key.layer, key.operation, UNKNOWN, part), {})
        if not of_all:
            return own
        share = self._share(row, part)
        return {who: own.get(who, 0.0) + share * of_all.get(who, 0.0) for who in {**own, **of_all}}

    def _waits_for_cpu(self, row: Row) -> None:
        """Adds the time that threads waited for a CPU in ``row``. Charges are counted during a wait, but the
        row has the time only when its call or gap ends. The larger of both is taken, so that waits within
        long calls are not missed."""
        by = self._charged(row, "runqueue")
        ns = max(row.split_ns.get("runqueue", 0) * self._facts.within(row), sum(by.values()))
        ns = min(ns, self._facts.wall_ns(row.key.pid))
        if ns > 0:
            self._cpu_waits.add(Late(Wait(row.key, "runqueue"), self._victim, ns, _scaled(by, ns)))

    def _interrupted(self, row: Row) -> None:
        """Adds the running time of ``row`` that interrupts took. Calls that wait for the device lose nothing
        by interrupts, because their threads only poll."""
        key = row.key
        share = self._interrupts.share(key.pid)
        polls = key.operation != HOST_GAP and kind_of(key.layer, key.operation).family in _HANDED_OVER
        if share and not polls:
            ns = min(row.beyond_usual("running"), share * row.split_ns.get("running", 0))
            wait = Wait(key, INTERRUPTED)
            self._losses.add("interrupts", wait, INTERRUPTED, ns * self._facts.within(row), {})

    def _wait(self, row: Row, part: str, ns: float) -> None:
        wait = Wait(row.key, part)
        if part in ("disk", "memory"):
            if not self._held_up(wait, self._victim, part, ns, {}):
                self._unexplained(row, wait, ns)
            return
        share = self._share(row, part)
        most_ns = row.split_ns[part] / share if share else 0.0
        edges = self._graph.of_row(row.key.pid, row.key.layer, row.key.operation, part, most_ns)
        left = ns
        scaled = scaled_edges(edges, ns, share)
        for edge in scaled:
            rest = self._without_startup(wait, edge)
            left -= edge.ns - rest.ns
            if self._explained(row, wait, rest):
                left -= rest.ns
        if part == "network" and self._loses_segments(row.key.pid):
            self._losses.add("tcp_retransmits", wait, part, left, {})
        elif part == "network" and self._graph.asks_elsewhere(row.key.pid):
            elsewhere = sum(edge.ns for edge in scaled if not edge.waker.pid)
            self._losses.add("remote_service", wait, part, elsewhere, {})
        else:
            self._unexplained(row, wait, left)

    def _unexplained(self, row: Row, wait: Wait, ns: float) -> None:
        """Attributes ``ns`` of a wait without a known culprit to ``unexplained_wait`` if the program is known
        to be always at work; otherwise does nothing."""
        usual = row.usual_ns
        if row.key.operation != HOST_GAP or usual is None or row.normal_p99_ns is None:
            return
        idle = sum(usual.get(part, 0.0) for part in (*WAKEABLE, "sleep", "other"))
        if idle < SELDOM_WAITS * sum(usual.values()):
            self._losses.add("unexplained_wait", wait, wait.part, ns, {})

    def _explained(self, row: Row, wait: Wait, edge: Edge) -> bool:
        """Attributes the waits of a caller in ``edge``, which one thread ended. Returns whether that explains
        these waits."""
        waker = _who(edge.waker)
        if edge.kind in HELD_BACK:
            by = self._stopper(self._victim.pid, edge.kind, edge.ns, waker)
            self._losses.add("stopped", wait, edge.kind, edge.ns, by)
            return True
        if edge.kind == TIMEOUT:
            if not self._graph.is_gil(self._victim.pid, edge):
                return False
            self._losses.add("gil", wait, "lock", edge.ns, {self._victim: edge.ns})
            return True
        if not waker.pid or edge.kind in ("other", ENDED):
            return False
        if edge.kind == "lock":
            return self._locked(wait, self._victim, edge)
        if edge.kind == HAND_OVER:
            # Threads of a driver, of an autograd engine and of NCCL hand results over inside calls that wait
            # for the device or for ranks, which is no loss.
            inside = row.key.layer != HOST_LAYER
            if not (inside and kind_of(row.key.layer, row.key.operation).family in _HANDED_OVER):
                followed = self._work(wait, edge.waker, edge.ns)
                if not followed and not inside and row.usual_ns is not None:
                    self._losses.add("lock_contention", wait, "lock", edge.ns, {waker: edge.ns})
            return True  # The thread that hands over is known, even if it is not late by fault.
        return self._answered(wait, self._victim, edge)

    def _without_startup(self, wait: Wait, edge: Edge) -> Edge:
        """Attributes what restarts of worker processes added to a wait, if processes of the tenant ended in
        the window: the time in which the waker's process started, or the whole wait if it was for the end of
        a process while others started. Returns the rest of the wait."""
        use = self._facts.use(self._victim.tenant)
        if edge.waker.pid == self._victim.pid or use is None or not use.exits:
            return edge
        waker = _who(edge.waker)
        if edge.kind == ENDED:
            ns = edge.ns if self._startups else 0.0
        else:
            ns = min(self._startups.get(waker.pid, 0), edge.ns)
            if ns:
                self._startups[waker.pid] -= int(ns)
        self._losses.add("workers_restarted", wait, wait.part, ns, {})
        return edge._replace(ns=edge.ns - ns)

    def _answered(self, wait: Wait, who: Who, edge: Edge) -> bool:
        """Attributes a wait of ``who`` for data from the waker of ``edge``, which may belong to another
        tenant. Returns whether that explains the wait."""
        waker = _who(edge.waker)
        if self._graph.are_ranks(who.pid, waker.pid):
            return self._work(wait, edge.waker, edge.ns)
        asks = self._graph.asks(who.pid, waker.pid)
        if not asks and not self._works_for(waker):
            return False  # The waker may as well be a client that gives ``who`` its work.
        if self._graph.asks(waker.pid, who.pid):
            return False
        if self._work(wait, edge.waker, edge.ns):
            return True
        if asks and not self._works_for(waker):
            on = wait._replace(path=(*wait.path, waker))
            self._losses.add("remote_service", on, edge.kind, edge.ns, {waker: edge.ns})
            return True
        return False

    def _loses_segments(self, pid: int) -> bool:
        """Returns whether connections of a process to other hosts keep losing segments. On a busy host TCP
        also sends segments again that stay on the host, although none was lost."""
        return not self._graph.is_local(pid) and loses_segments(self._facts, pid)

    def _is_child(self, who: Who) -> bool:
        worker = self._facts.process(who.pid)
        return worker is not None and worker.parent_pid == self._victim.pid

    def _works_for(self, who: Who) -> bool:
        return who.tenant == self._victim.tenant or self._is_child(who)

    def _work(self, wait: Wait, thread: ThreadId, ns: float) -> bool:
        """Attributes ``ns`` that were spent waiting for ``thread`` to the reasons why ``thread`` was late.
        Returns False if the time of ``thread`` does not show why."""
        work = self._graph.work_of(thread)
        if work is None or thread in wait.threads or len(wait.threads) >= MOST_LINKS:
            return False
        if ns < LEAST_FOLLOWED * self._facts.seconds * 1e9:
            return False
        worker = _who(thread)
        known = wait.path[-1:] == (worker,) or worker.pid == self._victim.pid
        path = wait.path if known else (*wait.path, worker)
        wait = wait._replace(path=path, threads=(*wait.threads, thread))
        busy: dict[str, float] = {}
        edges: dict[str, list[Edge]] = {}
        turns = 0.0
        ranks = self._graph.are_ranks(self._victim.pid, worker.pid)
        for part in (
            "running",
            "runqueue",
            "disk",
            "memory",
            "sleep",
            "other",
            *(("gpu",) if ranks else ()),
            *WAKEABLE,
        ):
            part_ns = work.split_ns.get(part, 0.0)
            if part == "other":
                found = scaled_edges(self._graph.waits_of(thread, part), part_ns)
                edges[part] = [edge for edge in found if edge.kind in HELD_BACK]
                part_ns = sum(edge.ns for edge in edges[part])
            elif part in WAKEABLE:
                found = scaled_edges(self._graph.waits_of(thread, part), part_ns)
                in_turn = sum(edge.ns for edge in found if self._is_turn(wait, edge))
                turns += in_turn
                edges[part] = [edge for edge in found if self._leads_on(wait, edge)]
                lossy = part == "network" and self._loses_segments(worker.pid)
                part_ns = part_ns - in_turn if lossy else sum(edge.ns for edge in edges[part])
            if part_ns > 0:
                busy[part] = part_ns
        active = sum(busy.values())
        if active <= 0 or active < BUSY_WORKER * (work.total_ns - turns):
            return False
        late = min(ns, active)
        # A stop delays all that the thread would have done, so the stop is attributed before other reasons.
        stopped = min(busy.pop("other", 0.0), late)
        self._work_part(wait, worker, "other", stopped, edges["other"])
        weights = _late_by(self._facts.work_of(worker.pid), busy)
        total = sum(weights.values())
        for part, weight in weights.items():
            on = wait._replace(sure=wait.sure * weight / total)
            self._work_part(on, worker, part, weight * (late - stopped) / total, edges.get(part, ()))
        return True

    def _is_turn(self, wait: Wait, edge: Edge) -> bool:
        """Returns whether ``edge``, a wait of the last thread of ``wait``, was ended by a thread that itself
        waits for this last thread: such threads take turns."""
        waker = edge.waker
        if waker in wait.threads or (waker.pid == self._victim.pid and self._graph.is_caller(waker)):
            return True
        return waker.pid == self._victim.pid != wait.threads[-1].pid

    def _leads_on(self, wait: Wait, edge: Edge) -> bool:
        pid = wait.threads[-1].pid
        if edge.kind == TIMEOUT:
            return self._graph.is_gil(pid, edge)
        if edge.kind == "network" and not edge.waker.pid:
            return self._graph.asks_elsewhere(pid)
        return bool(edge.waker.pid) and not self._is_turn(wait, edge)

    def _work_part(self, wait: Wait, worker: Who, part: str, ns: float, edges: Iterable[Edge]) -> None:
        """Attributes ``ns`` that the last thread of ``wait``, one of ``worker``, spent in ``part``."""
        if part == "other":
            for edge in scaled_edges(edges, ns):
                by = self._stopper(worker.pid, edge.kind, edge.ns, _who(edge.waker))
                self._losses.add("stopped", wait, edge.kind, edge.ns, by)
        elif part in WAKEABLE:
            explained = sum(
                edge.ns for edge in scaled_edges(edges, ns) if self._waits_too(wait, worker, edge)
            )
            if part == "network" and self._loses_segments(worker.pid):
                self._losses.add("tcp_retransmits", wait, part, ns - explained, {})
        elif self._graph.are_ranks(self._victim.pid, worker.pid):
            self._rank_waits.add(wait, part, ns)
        elif not self._works_for(worker):
            self._losses.add("remote_service", wait, part, ns, {worker: ns})
        elif part == "running":
            interrupted = ns * self._interrupts.share(worker.pid)
            self._losses.add("interrupts", wait, INTERRUPTED, interrupted, {})
            self._losses.add("loader_cpu", wait, part, ns - interrupted, {worker: ns - interrupted})
        elif part == "sleep":
            self._losses.add("loader_sleep", wait, part, ns, {})
        else:
            row = self._facts.work_of(worker.pid)
            by = _scaled(self._charged(row, part), ns) if row is not None else {}
            self._held_up(wait, worker, part, ns, by)

    def _waits_too(self, wait: Wait, worker: Who, edge: Edge) -> bool:
        """Attributes a wait of a thread of ``worker``, for which other threads wait. Returns whether that
        explains the wait."""
        waker = _who(edge.waker)
        if edge.kind == TIMEOUT:
            self._losses.add("gil", wait, "lock", edge.ns, {worker: edge.ns})
            return True
        if edge.kind == HAND_OVER:
            return self._work(wait, edge.waker, edge.ns)
        if not waker.pid:
            self._losses.add("remote_service", wait, edge.kind, edge.ns, {})
            return True
        if edge.kind == "lock":
            return self._locked(wait, worker, edge)
        return self._answered(wait, worker, edge)

    def _locked(self, wait: Wait, who: Who, edge: Edge) -> bool:
        """Attributes a wait of ``who``, the caller or a worker, for a lock that the waker of ``edge`` held. A
        waker that itself waits for locks for most of its time only passed the lock on; then its waits are
        followed. Returns whether that explains the wait."""
        work = self._graph.work_of(edge.waker)
        if work is not None and work.split_ns["lock"] >= PASSES_ON * work.total_ns:
            return self._work(wait, edge.waker, edge.ns)
        cause = "loader_lock" if wait.path else "lock_contention"
        holder = _who(edge.waker)
        if not self._works_for(who):
            cause, holder = "remote_service", who
        self._losses.add(cause, wait, "lock", edge.ns, {holder: edge.ns})
        return True

    def _held_up(self, wait: Wait, who: Who, part: str, ns: float, by: Mapping[Who, float]) -> bool:
        """Attributes a wait of ``who``, the caller or a worker, for a CPU, a disk or memory, which no other
        thread has to end. Returns whether the reason is known."""
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
        """Returns the part of the waits for a disk at the root of ``wait`` that were in fsync, 0 to 1."""
        if wait.threads:
            thread = wait.threads[-1]
            waits, work = self._graph.waits_of(thread, "disk"), self._graph.work_of(thread)
            disk_ns = work.split_ns["disk"] if work is not None else 0.0
        else:
            key = wait.effect
            waits = self._graph.of_row(key.pid, key.layer, key.operation, "disk")
            disk_ns = sum(
                row.split_ns.get("disk", 0) * self._facts.within(row)
                for row in self._facts.rows_of(key.pid)
                if row.key._replace(device=key.device) == key
            )
        fsync_ns = sum(edge.ns for edge in waits if edge.kind == FSYNC)
        return min(fsync_ns / disk_ns, 1.0) if disk_ns else 0.0


def _who(thread: ThreadId) -> Who:
    return Who(thread.tenant, thread.pid, thread.process)


def _late_by(work: Row | None, busy: Mapping[str, float]) -> Mapping[str, float]:
    """Returns the parts of a worker's ``busy`` time that make it late: the time beyond the usual, as far as
    ``work``, the row of its process, tells. Returns all of ``busy`` if the usual is not known, or if less
    than ``CHANGED_WORKER`` of ``busy`` is beyond it: then the worker behaves as always."""
    if work is None or work.usual_ns is None:
        return busy
    beyond = {}
    for part, ns in busy.items():
        spent = work.split_ns.get(part, 0)
        if spent and (more := work.beyond_usual(part)):
            beyond[part] = ns * more / spent
    return beyond if sum(beyond.values()) >= CHANGED_WORKER * sum(busy.values()) else busy


def _scaled(by: Mapping[Who, float], most: float) -> Mapping[Who, float]:
    """Returns ``by``, scaled down to a sum of at most ``most``."""
    total = sum(by.values())
    if total <= most or total <= 0:
        return by
    return {who: ns * most / total for who, ns in by.items()}


def scaled_edges(edges: Iterable[Edge], most: float, share: float = 1.0) -> Sequence[Edge]:
    """Returns ``share`` of the waits of ``edges``, scaled down to a sum of at most ``most`` ns."""
    edges = list(edges)
    total = share * sum(edge.ns for edge in edges)
    factor = share * (most / total if total > most else 1.0)
    return [edge._replace(ns=edge.ns * factor, times=edge.times * factor) for edge in edges]
