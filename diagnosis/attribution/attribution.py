"""Attributes each ns that a process lost on the host to one root cause.

Each part of the split of each row of a process is attributed separately. What a thread lost without waiting
for another thread, such as waits for a CPU, goes to `roots`. A wait that another thread ended is followed to
that thread (`following`).

A caller that sleeps briefly again and again while a child process computes counts as polling: it waits for
the result of that child.

A wait whose cause is not found is reported only for a program whose baseline shows that it is always at work.
For any other program the wait may be harmless: a program without work waits in the same way.
"""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.attribution import polling
from stalltop.diagnosis.attribution.charges import share
from stalltop.diagnosis.attribution.following import WAKEABLE, WaitFollower, is_long_poll
from stalltop.diagnosis.attribution.losses import Loss, Losses, Wait
from stalltop.diagnosis.attribution.rank_waits import RankWaits
from stalltop.diagnosis.attribution.roots import Roots
from stalltop.diagnosis.attribution.threads import Edge, ThreadGraph, scaled_edges
from stalltop.diagnosis.facts import Facts, Row
from stalltop.diagnosis.links import Who, who_of
from stalltop.model.evidence import HOST_GAP, HOST_LAYER, ProcessUse
from stalltop.model.families import Family, kind_of
from stalltop.model.row_key import RowKey
from stalltop.model.thread_evidence import ENDED, HAND_OVER, HELD_BACK, TIMEOUT, Stop

SELDOM_WAITS: Final = 0.2
"""A program counts as always at work if, in its baseline, sleep and waits for threads, for the network and of
unknown kind together take less than this part of the time between its calls. A server with capacity to spare
waits for requests for longer."""
RESTART_SECONDS: Final = 30.0
"""A start of workers counts as a restart if a process of the tenant ended within this time before the end of
the window. Workers that import PyTorch take some seconds to start."""
EXECUTORS: Final = 2
"""Least number of threads in a window that make the threads of executors. A single thread of which nothing is
known may also be one that had a CPU all the time."""
SHORT_LIVED: Final = 0.7
"""The value of ``Wait.sure`` for waits that a short-lived thread ended. It is below 1 because the processes
that this thread waited for are not known."""
_WAITS: Final = ("disk", "memory", *WAKEABLE, "other")


class Attribution:
    """Computes all losses of one window."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._graph = ThreadGraph(facts)
        self._startups = self._graph.startups()
        """For each process (PID) that started in the window: the part of its start-up time that is not
        attributed yet, ns."""
        self._losses = Losses()
        self._roots = Roots(facts, self._graph, self._losses)
        self._rank_waits = RankWaits(self._losses)

    def losses(self) -> list[Loss]:
        """Returns what each process that makes calls lost, by root cause. Call it only once: a second call
        would add the same time again."""
        for pid in self._facts.callers:
            self._walk(pid)
        for stop in self._graph.stops:
            self._still_stopped(stop)
        self._rank_waits.settle()
        self._roots.settle()
        return list(self._losses)

    def _walk(self, pid: int) -> None:
        rows = [row for row in self._facts.rows_of(pid) if row.key.outermost or row.key.operation == HOST_GAP]
        if not rows:
            return
        victim = who_of(rows[0].key)
        follower = WaitFollower(self._facts, self._graph, self._losses, self._roots, self._rank_waits, victim)
        interrupted = self._roots.interrupted_share(pid) > 0
        for row in rows:
            self._roots.waits_for_cpu(row, victim)
            # If a call waits for the device, interrupts cost it no time, because its thread only polls.
            if interrupted and not _waits_for_device(row):
                self._roots.interrupted(row)
            split_ns = row.split_ns
            if split_ns.get("running") == row.total_ns:
                continue  # Its threads had the CPU all the time, as in most rows of a program at work.
            for part in _WAITS:
                if split_ns.get(part) and (ns := row.beyond_usual(part) * self._facts.within(row)) > 0:
                    self._wait(follower, row, part, ns)
            if row.key.operation == HOST_GAP and row.split_ns.get("sleep"):
                self._polls(row)

    def _polls(self, row: Row) -> None:
        """Attributes the short sleeps of a caller between its calls to the child processes that compute
        during these sleeps."""
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
        """If a process is still stopped, adds the time for which it has been stopped. No row has this time
        yet, because a wait is counted only when it ends."""
        stopped = self._facts.process(stop.pid)
        if stopped is None or not stop.still_ns:
            return
        caller: ProcessUse = stopped
        path: tuple[Who, ...] = ()
        if stopped.link:
            parent = self._facts.process(stopped.parent_pid)
            if parent is None or parent.link or self._facts.rows_of(parent.pid):
                return  # Only a parent that makes calls, but none in this window, may wait for this worker.
            caller, path = parent, (who_of(stopped),)
        calls = (call.row for call in self._facts.window.open_calls if call.pid == caller.pid)
        row = next(calls, (caller.tenant, caller.pid, caller.process, HOST_LAYER, HOST_GAP))
        wait = Wait(RowKey(self._facts.window.host, *row), "other", path)
        ns = stop.still_ns - self._losses.of(caller.pid, "stopped")
        self._roots.stopped(wait, stop.pid, stop.kind, ns)

    def _wait(self, follower: WaitFollower, row: Row, part: str, ns: float) -> None:
        wait = Wait(row.key, part)
        if part in ("disk", "memory"):
            if not self._roots.held_up(wait, follower.victim, part, ns, {}):
                self._unexplained(row, wait, ns)
            return
        of_row = share(self._facts, row, part)
        most_ns = row.split_ns[part] / of_row if of_row else 0.0
        edges = self._graph.of_row(row.key.pid, row.key.layer, row.key.operation, part, most_ns)
        left = ns
        scaled = scaled_edges(edges, ns, of_row)
        for edge in scaled:
            rest = self._without_startup(follower.victim, wait, edge)
            left -= edge.ns - rest.ns
            if self._explained(follower, row, wait, rest):
                left -= rest.ns
        if part == "network" and self._roots.loses_segments(row.key.pid):
            self._losses.add("tcp_retransmits", wait, part, left, {})
        elif part == "network" and self._graph.asks_elsewhere(row.key.pid):
            elsewhere = sum(
                edge.ns
                for edge in scaled
                if edge.kind == part and not edge.waker.pid and not is_long_poll(edge)
            )
            self._losses.add("remote_service", wait, part, elsewhere, {})
        else:
            self._unexplained(row, wait, left)

    def _unexplained(self, row: Row, wait: Wait, ns: float) -> None:
        """Attributes ``ns`` of a wait without a known culprit to ``unexplained_wait``, if the wait is between
        calls and the program is known to be always at work. Does nothing otherwise."""
        usual = row.usual_ns
        if row.key.operation != HOST_GAP or usual is None or row.normal_p99_ns is None:
            return
        idle = sum(usual.get(part, 0.0) for part in (*WAKEABLE, "sleep", "other"))
        if idle < SELDOM_WAITS * sum(usual.values()):
            self._losses.add("unexplained_wait", wait, wait.part, ns, {})

    def _explained(self, follower: WaitFollower, row: Row, wait: Wait, edge: Edge) -> bool:
        """Attributes ``edge``, the part of a caller's ``wait`` that one thread ended. Returns False if no
        reason was found for this part."""
        victim, waker = follower.victim, who_of(edge.waker)
        if edge.kind in HELD_BACK:
            self._roots.stopped(wait, victim.pid, edge.kind, edge.ns, waker)
            return True
        if edge.kind == TIMEOUT:
            if not self._graph.is_gil(victim.pid, edge):
                return False
            self._losses.add("gil", wait, "lock", edge.ns, {victim: edge.ns})
            return True
        if not waker.pid or edge.kind in ("other", ENDED):
            return False
        if edge.kind == "lock":
            return follower.locked(wait, victim, edge)
        if edge.kind == HAND_OVER:
            # Threads of a driver, of an autograd engine and of NCCL hand over results inside calls that wait
            # for the device or for ranks. The time until such a hand-over is no loss.
            if not _waits_for_device(row):
                followed = follower.work(wait, edge)
                if not followed and self._restarts(victim, edge):
                    self._losses.add(
                        "workers_restarted", wait._replace(sure=SHORT_LIVED), wait.part, edge.ns, {}
                    )
                elif not followed and row.key.layer == HOST_LAYER and row.usual_ns is not None:
                    self._losses.add("lock_contention", wait, "lock", edge.ns, {waker: edge.ns})
            return True  # The thread that ended the wait is known, even if it was not late.
        return follower.answered(wait, victim, edge)

    def _restarts(self, victim: Who, edge: Edge) -> bool:
        """Returns whether ``edge`` was ended by a short-lived thread that managed worker processes, as the
        thread of an executor does that is made anew for each batch. This is assumed if there were several
        such threads in the window, and at least as many processes of the tenant ended."""
        use = self._facts.use(victim.tenant)
        if edge.waker.pid != victim.pid or use is None or not use.exits:
            return False
        ended = self._graph.ended_threads(victim.pid)
        return edge.waker.tid in ended and EXECUTORS <= len(ended) <= use.exits

    def _ended_lately(self, tenant: str) -> bool:
        """Returns whether a process of a tenant ended in the last ``RESTART_SECONDS``."""
        use, now = self._facts.use(tenant), self._facts.window.end
        if use is not None and use.exits:
            return True
        return any(now - at < RESTART_SECONDS for at, _ in self._facts.trend("exits", tenant))

    def _without_startup(self, victim: Who, wait: Wait, edge: Edge) -> Edge:
        """Finds the part of ``edge``, a wait of ``victim``, that restarts of worker processes caused, and
        attributes it to them. Returns ``edge`` without this part.

        If another thread ended the wait, this part is the start-up time of that thread's process. If the wait
        was for the end of a process, it is the whole wait, provided that other processes started in the
        window. If no process of the victim's tenant ended lately, nothing was restarted.
        """
        if edge.waker.pid == victim.pid or not self._ended_lately(victim.tenant):
            return edge
        if edge.kind == ENDED:
            ns = edge.ns if self._startups else 0.0
        else:
            ns = min(self._startups.get(edge.waker.pid, 0), edge.ns)
            if ns:
                self._startups[edge.waker.pid] -= int(ns)
        self._losses.add("workers_restarted", wait, wait.part, ns, {})
        return edge._replace(ns=edge.ns - ns)


def _waits_for_device(row: Row) -> bool:
    """Returns whether the calls of a row wait for the device, or for other ranks."""
    return kind_of(row.key.layer, row.key.operation).family in (Family.SYNC, Family.COLLECTIVE)
