"""Follows the waits of one process from thread to thread, to what made them long.

A thread ends a wait late because of what it did during the wait: it worked, or it waited itself. The waits of
that thread are followed in the same way for a few steps, through pipes, sockets, conditions and locks, also
into other processes. A thread is not the cause of the delay if it waits for the caller, or if nobody knows
what ends its waits.

A process that runs the same command as the caller, and makes calls too, is another rank of the caller's job.
The cause that is reported for the caller is that this rank is late. The reason why it is late is reported as
a problem of that rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stalltop.diagnosis.attribution.losses import Losses, Wait
from stalltop.diagnosis.attribution.rank_waits import RankWaits
from stalltop.diagnosis.attribution.roots import Roots
from stalltop.diagnosis.attribution.threads import Edge, ThreadGraph, Work, scaled_edges
from stalltop.diagnosis.facts import Facts, Row
from stalltop.diagnosis.links import Who, who_of
from stalltop.model.thread_evidence import HAND_OVER, HELD_BACK, TIMEOUT, ThreadId

CHANGED_WORKER: Final = 0.2
"""If at least this part of a worker's busy time is beyond its usual time, only the time beyond makes the
worker late. Otherwise all of its busy time makes it late."""
MOST_LINKS: Final = 6
"""Maximum number of threads on one path: the eBPF programs follow no more."""
LEAST_FOLLOWED: Final = 0.001
"""A wait is followed only if it takes at least this part of the window. Threads of a pool wake each other on
so many paths that following all of them would take hours."""
BUSY_WORKER: Final = 0.5
"""If the work of a worker and its waits with a known reason together take less than this part of its time,
the worker is itself waiting for work."""
BUSY_PRODUCER: Final = 0.8
"""A client of a message broker is the reason why its queue is empty only if it is busy for at least this part
of its time."""
COMES_WITH_ANSWERS: Final = 0.5
"""The answers of a message broker depend on a client only if a wait for an answer takes at least this part of
the time between two visits of the client, on average."""
LONG_POLL_NS: Final = 1_000_000_000
"""If the waits of a client for a server take at least this long on average, ns, the client waits for its next
job: consumers of queues wait for a message for seconds (Redis' BLPOP, HTTP long polling)."""
PASSES_ON: Final = 0.5
"""A thread (or, in `host.locks`, a process) that spends at least this part of its time in waits for locks did
not hold a lock for long: it got the lock late and passed it on."""
INPUTS: Final = 0.1
"""Least number of inputs for each result at which waits that timers ended count as waits for input, not as
sleep. It is below 1 because a thread may hand over several results for one input."""
WAKEABLE: Final = ("lock", "network", "process")
"""Parts of the split in which a thread waits until another thread ends the wait."""


def is_long_poll(edge: Edge) -> bool:
    """Returns whether a client that waited for a server (``edge``) probably waited for its next job, and not
    for the answer to a request."""
    return edge.ns >= LONG_POLL_NS * edge.times


@dataclass(frozen=True, slots=True)
class WaitFollower:
    """Follows the waits of ``victim``, one process that makes calls."""

    facts: Facts
    graph: ThreadGraph
    losses: Losses
    roots: Roots
    rank_waits: RankWaits
    victim: Who

    def answered(self, wait: Wait, who: Who, edge: Edge) -> bool:
        """Attributes ``edge``, a wait of ``who`` for data that the waker of ``edge`` sent. The waker may
        belong to another tenant. Returns whether the reason of the wait was found."""
        waker = who_of(edge.waker)
        if self.graph.are_ranks(who.pid, waker.pid):
            return self.work(wait, edge)
        if self.graph.asks(waker.pid, who.pid):
            if self._works_for(who):
                return False
            return not self._produces(wait, edge) or self.work(wait, edge)
        asks = self.graph.asks(who.pid, waker.pid)
        if not asks and not self._works_for(waker) and waker.tenant != who.tenant:
            return False  # The waker may as well be a client that sends requests to ``who``.
        if self.work(wait, edge):
            return True
        # A server whose time is known, and explains nothing, was itself waiting for something to do.
        if asks and not self._works_for(waker) and self.graph.work_of(edge.waker) is None:
            on = wait._replace(path=(*wait.path, waker))
            if not is_long_poll(edge):
                self.losses.add("remote_service", on, edge.kind, edge.ns, {waker: edge.ns})
            return True
        return False

    def _produces(self, wait: Wait, edge: Edge) -> bool:
        """Returns whether the client that ended ``edge``, waits of a server, may bring what the victim waits
        for, as the producer behind a message broker does.

        A client that has time left does not keep the victim waiting: the queue is empty because there is
        little to do. If the client comes more rarely than the server answers, the answers do not depend on
        it.
        """
        work = self.graph.work_of(edge.waker)
        if work is None or edge.waker.pid == self.victim.pid:
            return False
        if wait.mean_ns * edge.times < COMES_WITH_ANSWERS * edge.ns:
            return False
        active = sum(work.split_ns[part] for part in ("running", "runqueue", "disk", "memory"))
        return active >= BUSY_PRODUCER * work.total_ns

    def locked(self, wait: Wait, who: Who, edge: Edge) -> bool:
        """Attributes ``edge``, a wait of ``who`` (the caller or a worker) for a lock that the waker of
        ``edge`` held. If the waker spends most of its time in waits for locks, it only passed the lock on,
        and its own waits are followed. Returns whether the reason of the wait was found."""
        work = self.graph.work_of(edge.waker)
        if work is not None and work.split_ns["lock"] >= PASSES_ON * work.total_ns:
            return self.work(wait, edge)
        cause = "loader_lock" if wait.path else "lock_contention"
        holder = who_of(edge.waker)
        if not self._works_for(who):
            cause, holder = "remote_service", who
        self.losses.add(cause, wait, "lock", edge.ns, {holder: edge.ns})
        return True

    def work(self, wait: Wait, edge: Edge) -> bool:
        """Attributes ``edge``, a part of ``wait``, to the reasons why the thread that ended it was late.
        Returns False if the time of this thread does not show why."""
        thread, ns = edge.waker, edge.ns
        work = self.graph.work_of(thread)
        if work is None or thread in wait.threads or len(wait.threads) >= MOST_LINKS:
            return False
        if ns < LEAST_FOLLOWED * self.facts.seconds * 1e9:
            return False
        worker, before = who_of(thread), wait.path[-1] if wait.path else self.victim
        known = wait.path[-1:] == (worker,) or worker.pid == self.victim.pid
        path = wait.path if known else (*wait.path, worker)
        mean_ns = edge.ns / edge.times if edge.times else 0.0
        wait = wait._replace(path=path, threads=(*wait.threads, thread), mean_ns=mean_ns)
        # Servers that wait for requests wake now and then by a timer, too.
        sleeps = not self.graph.asks(before.pid, worker.pid) and self._sleeps(wait, edge.times)
        busy, edges, turns = self._time_of(wait, worker, work, sleeps=sleeps)
        active = sum(busy.values())
        if active <= 0 or active < BUSY_WORKER * (work.total_ns - turns):
            return False
        late = min(ns, active)
        # While the thread was stopped it could do nothing else, so the stop is attributed before other
        # reasons.
        stopped = min(busy.pop("other", 0.0), late)
        self._work_part(wait, worker, "other", stopped, edges["other"])
        weights = _late_by(self.facts.work_of(worker.pid), busy)
        total = sum(weights.values())
        for part, weight in weights.items():
            on = wait._replace(sure=wait.sure * weight / total)
            self._work_part(on, worker, part, weight * (late - stopped) / total, edges.get(part, ()))
        return True

    def _time_of(
        self, wait: Wait, worker: Who, work: Work, *, sleeps: bool
    ) -> tuple[dict[str, float], dict[str, list[Edge]], float]:
        """Returns what may have made the last thread of ``wait.threads`` late: the ns of each part of its
        split, and its waits by part. The third result is how many ns it waited for threads with which it
        takes turns. ``sleeps`` says whether it sleeps in waits that timers end."""
        thread = wait.threads[-1]
        busy: dict[str, float] = {}
        edges: dict[str, list[Edge]] = {}
        turns = 0.0
        gpu = ("gpu",) if self._is_rank(worker.pid) else ()
        for part in ("running", "runqueue", "disk", "memory", "sleep", "other", *gpu, *WAKEABLE):
            part_ns = work.split_ns.get(part, 0.0)
            if part == "other":
                found = scaled_edges(self.graph.waits_of(thread, part), part_ns)
                edges[part] = [edge for edge in found if edge.kind in HELD_BACK]
                part_ns = sum(edge.ns for edge in edges[part])
            elif part in WAKEABLE:
                waited: Sequence[Edge] = self.graph.waits_of(thread, part)
                if sleeps:
                    timers, waited = self.graph.timed(thread, part)
                    slept = min(sum(edge.ns for edge in timers), part_ns)
                    busy["sleep"] = busy.get("sleep", 0.0) + slept
                    part_ns -= slept
                found = scaled_edges(waited, part_ns)
                in_turn = sum(edge.ns for edge in found if self._is_turn(wait, edge))
                turns += in_turn
                edges[part] = [edge for edge in found if self._leads_on(wait, edge)]
                lossy = part == "network" and self.roots.loses_segments(worker.pid)
                part_ns = part_ns - in_turn if lossy else sum(edge.ns for edge in edges[part])
            busy[part] = part_ns
        return {part: ns for part, ns in busy.items() if ns > 0}, edges, turns

    def _work_part(self, wait: Wait, worker: Who, part: str, ns: float, edges: Iterable[Edge]) -> None:
        """Attributes ``ns`` that the last thread of ``wait.threads`` spent in ``part``. The thread belongs to
        ``worker``."""
        if part == "other":
            for edge in scaled_edges(edges, ns):
                self.roots.stopped(wait, worker.pid, edge.kind, edge.ns, who_of(edge.waker))
        elif part in WAKEABLE:
            explained = sum(
                edge.ns for edge in scaled_edges(edges, ns) if self._waits_too(wait, worker, part, edge)
            )
            if part == "network" and self.roots.loses_segments(worker.pid):
                self.losses.add("tcp_retransmits", wait, part, ns - explained, {})
        elif self._is_rank(worker.pid):
            self.rank_waits.add(wait, part, ns)
        elif not self._works_for(worker):
            self.losses.add("remote_service", wait, part, ns, {worker: ns})
        else:
            self.roots.own_time(wait, worker, part, ns)

    def _waits_too(self, wait: Wait, worker: Who, part: str, edge: Edge) -> bool:
        """Attributes ``edge``, waits of the last thread of ``wait.threads`` in ``part`` of its split. The
        thread belongs to ``worker``. Returns whether the reason of ``edge`` was found."""
        # What another rank waits for is its own problem, unless it waits for a third rank.
        if self._is_rank(worker.pid) and (
            edge.kind == "lock" or not (edge.waker.pid == worker.pid or self._is_rank(edge.waker.pid))
        ):
            self.rank_waits.add(wait, part, edge.ns)
            return True
        if edge.kind == TIMEOUT:
            cause = "gil" if self._works_for(worker) else "remote_service"
            self.losses.add(cause, wait, "lock", edge.ns, {worker: edge.ns})
            return True
        if edge.kind == HAND_OVER:
            return self.work(wait, edge)
        if not edge.waker.pid:
            self.losses.add("remote_service", wait, edge.kind, edge.ns, {})
            return True
        if edge.kind == "lock":
            return self.locked(wait, worker, edge)
        return self.answered(wait, worker, edge)

    def _sleeps(self, wait: Wait, results: float) -> bool:
        """Returns whether the last thread of ``wait.threads`` sleeps in its waits that timers end: an event
        loop in waits for data, other threads in waits for a condition. It does not if it got input meanwhile:
        then timers only interrupted its waits for input. ``results`` says how often it ended the wait that is
        followed.
        """
        parts = [self.graph.timed(wait.threads[-1], part) for part in WAKEABLE]
        if not any(timers for timers, _ in parts):
            return False
        inputs = 0.0
        for _, others in parts:
            inputs += sum(
                edge.times
                for edge in others
                if (edge.waker.pid or edge.kind == "network")
                and not self._is_turn(wait, edge)
                and not self._is_prompt(wait, edge.waker)
            )
        return inputs < INPUTS * results

    def _is_prompt(self, wait: Wait, thread: ThreadId) -> bool:
        """Returns whether ``thread``, of a server that the last of ``wait.threads`` asks, mostly waits for
        requests of these threads, so that they hardly wait for it."""
        work = self.graph.work_of(thread)
        if work is None or not self.graph.asks(wait.threads[-1].pid, thread.pid):
            return False
        edges = (edge for part in WAKEABLE for edge in self.graph.timed(thread, part)[1])
        return sum(edge.ns for edge in edges if edge.waker in wait.threads) >= BUSY_WORKER * work.total_ns

    def _is_turn(self, wait: Wait, edge: Edge) -> bool:
        """Returns whether ``edge``, a wait of the last thread of ``wait.threads``, was ended by a thread that
        in turn waits for this last thread. Such threads take turns, and neither delays the other. If the last
        thread belongs to another process than the victim, this is assumed of each thread of the victim."""
        waker = edge.waker
        if waker in wait.threads or (waker.pid == self.victim.pid and self.graph.is_caller(waker)):
            return True
        return waker.pid == self.victim.pid != wait.threads[-1].pid

    def _leads_on(self, wait: Wait, edge: Edge) -> bool:
        """Returns whether ``edge``, a wait of the last thread of ``wait.threads``, may have a reason that can
        be found and that made this thread late."""
        pid = wait.threads[-1].pid
        if edge.kind == TIMEOUT:
            return self.graph.is_gil(pid, edge)
        if edge.kind == "network" and not edge.waker.pid:
            return self.graph.asks_elsewhere(pid)
        return bool(edge.waker.pid) and not self._is_turn(wait, edge)

    def _is_rank(self, pid: int) -> bool:
        """Returns whether a process is another rank of the victim's job."""
        return self.graph.are_ranks(self.victim.pid, pid)

    def _works_for(self, who: Who) -> bool:
        """Returns whether a process belongs to the tenant of the victim, or is a child of the victim."""
        return who.tenant == self.victim.tenant or self._is_child(who)

    def _is_child(self, who: Who) -> bool:
        worker = self.facts.process(who.pid)
        return worker is not None and worker.parent_pid == self.victim.pid


def _late_by(work: Row | None, busy: Mapping[str, float]) -> Mapping[str, float]:
    """Returns the parts of a worker's ``busy`` time that make it late: in each part, the time beyond the
    usual. ``work`` is the row with the host work of its process, and has the usual times.

    Returns all of ``busy`` if the usual times are not known, or if less than ``CHANGED_WORKER`` of ``busy``
    is beyond them, because the worker then behaves as always.
    """
    if work is None or work.usual_ns is None:
        return busy
    beyond = {}
    for part, ns in busy.items():
        spent = work.split_ns.get(part, 0)
        if spent and (more := work.beyond_usual(part)):
            beyond[part] = ns * more / spent
    return beyond if sum(beyond.values()) >= CHANGED_WORKER * sum(busy.values()) else busy
