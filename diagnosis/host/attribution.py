"""Attributes each ns that a process lost on the host to one root cause.

A wait of a calling thread is followed to the thread that ended it. What that one did meanwhile is why it came
late: its own work, or waits of its own, which are followed in turn, through pipes, sockets, conditions and
locks, also into other processes, for a few steps. A thread that itself waits for the caller, or whose waits
have no known end, is not the cause of the delay.

A wait that no known thread ends is reported only of a program whose baseline shows that it is always at work,
because a wait for new work looks the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from stalltop.diagnosis.facts import Facts, Row
from stalltop.diagnosis.host import block, memory
from stalltop.diagnosis.host.cpu_waits import CpuWaits, Late
from stalltop.diagnosis.host.losses import Loss, Losses, Wait, Who
from stalltop.diagnosis.host.sockets import loses_segments
from stalltop.diagnosis.host.threads import Edge, ThreadGraph
from stalltop.model.devices.labels import UNKNOWN
from stalltop.model.evidence import HOST_GAP, HOST_LAYER, ProcessUse
from stalltop.model.families import Family, kind_of
from stalltop.model.row_key import RowKey
from stalltop.model.thread_evidence import ENDED, HAND_OVER, HELD_BACK, TIMEOUT, Stop, ThreadId

CHANGED_WORKER: Final = 0.2
"""Part of a worker's time on unusual things from which on these are why it is late."""
MOST_LINKS: Final = 6
"""Maximum number of threads followed in a row: as many as the kernel side follows."""
LEAST_FOLLOWED_NS: Final = 1_000_000
"""Part of a wait, ns of the window, that is not followed further from the second thread on: many threads that
wake each other have very many paths."""
BUSY_WORKER: Final = 0.5
"""Part of a worker's time spent on work, or on waits with a known reason, below which the worker itself waits
for work."""
WAKEABLE: Final = ("lock", "network", "process")
"""Parts of the split that another thread ends."""
SELDOM_WAITS: Final = 0.2
"""Part of the time between calls that a program usually waits for an unknown reason, below which it counts as
always at work. A server with capacity to spare waits for work for longer."""
_WAITS: Final = ("disk", "memory", *WAKEABLE, "other")
_HANDED_OVER: Final = (Family.SYNC, Family.COLLECTIVE)
GIL_INTERVAL_NS: Final = (4_900_000, 8_000_000)
"""Mean length of the timed waits of a thread that waits for Python's global interpreter lock: its switch
interval is 5 ms (sys.getswitchinterval), and timers are late by up to some ms on a busy host."""


class Attribution:
    """Computes all losses of one window."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._graph = ThreadGraph(facts)
        self._blamed: defaultdict[tuple[int, str, str, str, str], dict[Who, float]] = defaultdict(dict)
        """Culprits by process, layer, operation, device and part."""
        for charge in facts.window.evidence.charges:
            by = self._blamed[charge.pid, charge.layer, charge.operation, charge.device, charge.kind]
            who = Who(charge.culprit_tenant, charge.culprit_pid, charge.culprit_process)
            by[who] = by.get(who, 0.0) + charge.ns
        self._startups = self._graph.startups()
        """Start-up time of processes that started in the window, ns, less what is attributed already."""
        self._losses = Losses()
        self._cpu_waits = CpuWaits(facts, self._losses)
        self._victim = Who("", 0, "")
        """The process whose waits are being followed."""

    def losses(self) -> list[Loss]:
        """Returns what each process that makes calls lost, by root cause. Called once."""
        for pid in self._facts.callers:
            self._follow(pid)
        for stop in self._graph.stops:
            self._still_stopped(stop)
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
            for part in _WAITS:
                if row.split_ns.get(part) and (ns := row.beyond_usual(part) * self._facts.within(row)) > 0:
                    self._wait(row, part, ns)

    def _still_stopped(self, stop: Stop) -> None:
        """Adds the time of a process that is stopped and has not gone on: its wait counts when it ends."""
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
        """Returns who is to blame for ``ns`` of a stop: who did it or, if that is not known, ``waker``, who
        ended it."""
        stop = self._graph.stop_of(pid, kind)
        who = _who(stop.by) if stop is not None and stop.by.pid else waker
        return {who: ns} if who is not None and who.pid else {}

    def _share(self, row: Row, part: str) -> float:
        """Returns the part of an operation's waits that belongs to ``row``, one of its rows by device."""
        key = row.key
        alike = [
            other.split_ns.get(part, 0)
            for other in self._facts.rows_of(key.pid)
            if other.key._replace(device=key.device) == key
        ]
        # A call that is still open is charged already, but is in no row yet.
        return row.split_ns.get(part, 0) / sum(alike) if any(alike) else 1 / len(alike)

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
        share = self._share(row, part)
        return {who: own.get(who, 0.0) + share * of_all.get(who, 0.0) for who in {**own, **of_all}}

    def _waits_for_cpu(self, row: Row) -> None:
        """Adds the time without a CPU. Charges count while it happens, the row only when a call or gap ends:
        the larger of both is taken, so that long steps do not hide it."""
        by = self._charged(row, "runqueue")
        ns = max(row.split_ns.get("runqueue", 0) * self._facts.within(row), sum(by.values()))
        ns = min(ns, self._facts.wall_ns(row.key.pid))
        if ns > 0:
            self._cpu_waits.add(Late(Wait(row.key, "runqueue"), self._victim, ns, _scaled(by, ns)))

    def _wait(self, row: Row, part: str, ns: float) -> None:
        wait = Wait(row.key, part)
        if part in ("disk", "memory"):
            if not self._held_up(wait, self._victim, part, ns, {}):
                self._unexplained(row, wait, ns)
            return
        share = self._share(row, part)
        edges = self._graph.of_row(row.key.pid, row.key.layer, row.key.operation, part)
        left = ns
        scaled = scaled_edges(edges, ns, share)
        for edge in scaled:
            rest = self._without_startup(wait, edge)
            left -= edge.ns - rest.ns
            if self._explained(row, wait, rest):
                left -= rest.ns
        if part == "network" and loses_segments(self._facts, row.key.pid):
            self._losses.add("tcp_retransmits", wait, part, left, {})
        elif part == "network" and self._graph.asks_elsewhere(row.key.pid):
            elsewhere = sum(edge.ns for edge in scaled if not edge.waker.pid)
            self._losses.add("remote_service", wait, part, elsewhere, {})
        else:
            self._unexplained(row, wait, left)

    def _unexplained(self, row: Row, wait: Wait, ns: float) -> None:
        """Attributes ``ns`` without a known culprit: it is lost if the program is known to be always at
        work."""
        usual = row.usual_ns
        if row.key.operation != HOST_GAP or usual is None or row.normal_p99_ns is None:
            return
        idle = sum(usual.get(part, 0.0) for part in (*WAKEABLE, "sleep", "other"))
        if idle < SELDOM_WAITS * sum(usual.values()):
            self._losses.add("unexplained_wait", wait, wait.part, ns, {})

    def _explained(self, row: Row, wait: Wait, edge: Edge) -> bool:
        """Attributes a wait of a caller that ended in one way. Returns whether that explains it."""
        waker = _who(edge.waker)
        if edge.kind in HELD_BACK:
            by = self._stopper(self._victim.pid, edge.kind, edge.ns, waker)
            self._losses.add("stopped", wait, edge.kind, edge.ns, by)
            return True
        if edge.kind == TIMEOUT:
            if not self._is_gil(self._victim.pid, edge):
                return False
            self._losses.add("gil", wait, "lock", edge.ns, {self._victim: edge.ns})
            return True
        if not waker.pid or edge.kind in ("other", ENDED):
            return False
        if edge.kind == "lock":
            self._losses.add("lock_contention", wait, "lock", edge.ns, {waker: edge.ns})
            return True
        if edge.kind == HAND_OVER:
            # Threads of a driver, of an autograd engine and of NCCL hand results over inside such calls.
            inside = row.key.layer != HOST_LAYER
            if not (inside and kind_of(row.key.layer, row.key.operation).family in _HANDED_OVER):
                followed = self._work(wait, edge.waker, edge.ns)
                if not followed and not inside and row.usual_ns is not None:
                    self._losses.add("lock_contention", wait, "lock", edge.ns, {waker: edge.ns})
            return True  # Who hands over is known, even if that is not a fault.
        return self._answered(wait, self._victim, edge)

    def _without_startup(self, wait: Wait, edge: Edge) -> Edge:
        """Attributes the part of a wait in which the waker's process was starting, or until it ended, if the
        tenant's processes come and go. Returns the rest of the wait."""
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
        """Attributes a wait of ``who`` for data from the thread of an edge, which may belong to another
        tenant. Returns whether that explains it."""
        waker = _who(edge.waker)
        asks = self._graph.asks(who.pid, waker.pid)
        if not asks and not self._works_for(waker):
            return False  # It may as well be who gives ``who`` its work.
        if self._graph.asks(waker.pid, who.pid):
            return False
        if self._work(wait, edge.waker, edge.ns):
            return True
        if asks and not self._works_for(waker):
            on = wait._replace(path=(*wait.path, waker))
            self._losses.add("remote_service", on, edge.kind, edge.ns, {waker: edge.ns})
            return True
        return False

    def _is_gil(self, pid: int, edge: Edge) -> bool:
        """Returns whether timed waits of a process are those for Python's interpreter lock."""
        return (
            pid in self._graph.evidence.python
            and edge.times > 0
            and GIL_INTERVAL_NS[0] <= edge.ns / edge.times < GIL_INTERVAL_NS[1]
        )

    def _is_child(self, who: Who) -> bool:
        worker = self._facts.process(who.pid)
        return worker is not None and worker.parent_pid == self._victim.pid

    def _works_for(self, who: Who) -> bool:
        return who.tenant == self._victim.tenant or self._is_child(who)

    def _work(self, wait: Wait, thread: ThreadId, ns: float) -> bool:
        """Attributes ``ns`` that were spent waiting for ``thread`` to the reasons why it was late. Returns
        False if its own time does not show why."""
        work = self._graph.work_of(thread)
        if work is None or thread in wait.threads or len(wait.threads) >= MOST_LINKS:
            return False
        if wait.threads and ns < LEAST_FOLLOWED_NS:
            return False
        worker = _who(thread)
        known = wait.path[-1:] == (worker,) or worker.pid == self._victim.pid
        path = wait.path if known else (*wait.path, worker)
        wait = wait._replace(path=path, threads=(*wait.threads, thread))
        busy: dict[str, float] = {}
        edges: dict[str, list[Edge]] = {}
        turns = 0.0
        for part in ("running", "runqueue", "disk", "memory", "sleep", "other", *WAKEABLE):
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
                lossy = part == "network" and loses_segments(self._facts, worker.pid)
                part_ns = part_ns - in_turn if lossy else sum(edge.ns for edge in edges[part])
            if part_ns > 0:
                busy[part] = part_ns
        active = sum(busy.values())
        if active <= 0 or active < BUSY_WORKER * (work.total_ns - turns):
            return False
        late = min(ns, active)
        # A stop delays whatever the thread would have done, so it counts before that.
        stopped = min(busy.pop("other", 0.0), late)
        self._work_part(wait, worker, "other", stopped, edges["other"])
        weights = _late_by(self._facts.work_of(worker.pid), busy)
        total = sum(weights.values())
        for part, weight in weights.items():
            on = wait._replace(sure=wait.sure * weight / total)
            self._work_part(on, worker, part, weight * (late - stopped) / total, edges.get(part, ()))
        return True

    def _is_turn(self, wait: Wait, edge: Edge) -> bool:
        """Returns whether the last thread of ``wait`` waits for those that wait for it."""
        waker = edge.waker
        if waker in wait.threads or (waker.pid == self._victim.pid and self._graph.is_caller(waker)):
            return True
        return waker.pid == self._victim.pid != wait.threads[-1].pid

    def _leads_on(self, wait: Wait, edge: Edge) -> bool:
        pid = wait.threads[-1].pid
        if edge.kind == TIMEOUT:
            return self._is_gil(pid, edge)
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
            if part == "network" and loses_segments(self._facts, worker.pid):
                self._losses.add("tcp_retransmits", wait, part, ns - explained, {})
        elif not self._works_for(worker):
            self._losses.add("remote_service", wait, part, ns, {worker: ns})
        elif part == "running":
            self._losses.add("loader_cpu", wait, part, ns, {worker: ns})
        elif part == "sleep":
            self._losses.add("loader_sleep", wait, part, ns, {})
        else:
            row = self._facts.work_of(worker.pid)
            by = _scaled(self._charged(row, part), ns) if row is not None else {}
            self._held_up(wait, worker, part, ns, by)

    def _waits_too(self, wait: Wait, worker: Who, edge: Edge) -> bool:
        """Attributes a wait of a thread of ``worker`` that others wait for. Returns whether that explains
        it."""
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
            cause = "loader_lock" if self._works_for(worker) else "remote_service"
            by = waker if self._works_for(worker) else worker
            self._losses.add(cause, wait, "lock", edge.ns, {by: edge.ns})
            return True
        return self._answered(wait, worker, edge)

    def _held_up(self, wait: Wait, who: Who, part: str, ns: float, by: Mapping[Who, float]) -> bool:
        """Attributes a wait of ``who``, the caller or a worker, for something that no other process has to
        give. Returns whether the reason is known."""
        if part == "runqueue":
            self._cpu_waits.add(Late(wait, who, ns, by))
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
            self._losses.add(cause, wait, part, ns, {})
        return bool(cause)


def _who(thread: ThreadId) -> Who:
    return Who(thread.tenant, thread.pid, thread.process)


def _late_by(work: Row | None, busy: Mapping[str, float]) -> Mapping[str, float]:
    """Returns the part of a worker's time, out of ``busy``, that makes it late: what is beyond the usual, as
    far as ``work``, the row of its process, tells. If that is little, the worker behaves as always: then all
    of ``busy`` makes it late."""
    if work is None or work.usual_ns is None:
        return busy
    beyond = {}
    for part, ns in busy.items():
        spent = work.split_ns.get(part, 0)
        if spent and (more := work.beyond_usual(part)):
            beyond[part] = ns * more / spent
    return beyond if sum(beyond.values()) >= CHANGED_WORKER * sum(busy.values()) else busy


def _scaled(by: Mapping[Who, float], most: float) -> Mapping[Who, float]:
    """Returns ``by``, scaled to a sum of at most ``most``."""
    total = sum(by.values())
    if total <= most or total <= 0:
        return by
    return {who: ns * most / total for who, ns in by.items()}


def scaled_edges(edges: Iterable[Edge], most: float, share: float = 1.0) -> Sequence[Edge]:
    """Returns ``share`` of the waits of ``edges``, scaled to a sum of at most ``most`` ns."""
    edges = list(edges)
    total = share * sum(edge.ns for edge in edges)
    factor = share * (most / total if total > most else 1.0)
    return [edge._replace(ns=edge.ns * factor, times=edge.times * factor) for edge in edges]
