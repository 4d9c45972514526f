"""Presents the waits and the work of threads as a graph. `following` follows waits through it to their cause.

If a window has no evidence about threads, as in a recording, each process is treated as one thread.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from stalltop.diagnosis.facts import Facts
from stalltop.model.evidence import HOST_LAYER, HOST_WORK
from stalltop.model.thread_evidence import (
    HAND_OVER,
    TIMEOUT,
    TIMER,
    Stop,
    ThreadEvidence,
    ThreadId,
    ThreadWait,
    ThreadWork,
)
from stalltop.model.window import SPLITS

_FOLLOWED: Final = ("lock", "network", "process", "other")
"""Parts of the split in which another thread may have ended the wait."""
GIL_INTERVAL_NS: Final = (4_900_000, 8_000_000)
"""Bounds of the mean length of a timed wait, ns, if a thread waits for Python's global interpreter lock. The
switch interval is 5 ms (sys.getswitchinterval), and on a busy host timers are late by up to some ms."""


REST_OF_LIMIT: Final = 0.1
"""If a caller repeats a wait for data whenever its time limit is reached, the last wait takes a random part
of the limit, half of it on average. If the waits that data ended are shorter on average than this part of
the waits that timers ended, the timers limited no wait for data: the caller sleeps, as asyncio does."""


class Edge(NamedTuple):
    """Waits of one thread, all of one kind and all ended by the same other thread, the waker."""

    kind: str
    """Kind of the waits: a value of ``ThreadWait.kind``."""
    waker: ThreadId
    ns: float
    times: float


@dataclass(frozen=True, slots=True)
class Work:
    """How a thread spent its time."""

    split_ns: Mapping[str, float]
    total_ns: float


class ThreadGraph:
    """Threads of one window: what each of them did, and which thread ended its waits."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._seconds = facts.seconds
        self._calling = frozenset(facts.callers)
        evidence = facts.window.evidence.threads
        self.stops: Final = evidence.stops
        if not evidence.waits and not evidence.works:
            evidence = _by_process(facts)
        self.evidence: Final = evidence
        self._of_row: defaultdict[tuple[int, str, str], list[ThreadWait]] = defaultdict(list)
        self._of_thread: defaultdict[tuple[int, int], list[ThreadWait]] = defaultdict(list)
        self._ended: dict[int, frozenset[int]] = {}
        self._timed: dict[tuple[int, int, str], tuple[Sequence[Edge], Sequence[Edge]]] = {}
        callers: set[tuple[int, int]] = set()
        for wait in evidence.waits:
            self._of_row[wait.thread.pid, wait.layer, wait.operation].append(wait)
            self._of_thread[wait.thread.pid, wait.thread.tid].append(wait)
            if (wait.layer, wait.operation) != (HOST_LAYER, HOST_WORK):
                callers.add((wait.thread.pid, wait.thread.tid))
        self._callers = callers
        self._asks = frozenset((each.client, each.server) for each in evidence.asks)
        self._servers = {each.pid: each.servers for each in evidence.servers}
        self._local = frozenset(evidence.local)
        self._commands = {each.pid: each.line for each in evidence.commands if each.line}
        self._works = {(work.thread.pid, work.thread.tid): work for work in evidence.works}

    def startups(self) -> dict[int, int]:
        """Returns, for each process that started in the window, how many ns it took until a thread of it
        first ended a wait of another thread. If several of its threads did, the one that took longest
        counts."""
        found: dict[int, int] = {}
        for work in self._works.values():
            if work.startup_ns:
                found[work.thread.pid] = max(work.startup_ns, found.get(work.thread.pid, 0))
        return found

    def ended_threads(self, pid: int) -> frozenset[int]:
        """Returns the threads of process ``pid`` that ended waits of its callers in the window, and of which
        nothing else is known. Most of them have ended; others had a CPU nearly all the time."""
        known = self._ended.get(pid)
        if known is None:
            known = self._ended[pid] = frozenset(
                wait.waker.tid
                for wait in self.evidence.waits
                if wait.thread.pid == wait.waker.pid == pid and self.is_caller(wait.thread)
                if (pid, wait.waker.tid) not in self._works and not self.is_caller(wait.waker)
            )
        return known

    def is_caller(self, thread: ThreadId) -> bool:
        """Returns whether a thread makes traced calls."""
        return (thread.pid, thread.tid) in self._callers

    def asks(self, client: int, server: int) -> bool:
        """Returns whether process ``client`` is connected to process ``server`` as its client."""
        return (client, server) in self._asks

    def asks_elsewhere(self, pid: int) -> bool:
        """Returns whether a process may wait for servers of other hosts."""
        return bool(self._servers.get(pid))

    def stop_of(self, pid: int, kind: str) -> Stop | None:
        """Returns what is known of a stop of process ``pid``, of this ``kind`` (one of ``HELD_BACK``); None
        if nothing is."""
        return next((stop for stop in self.stops if (stop.pid, stop.kind) == (pid, kind)), None)

    def are_ranks(self, one: int, other: int) -> bool:
        """Returns whether two processes are ranks of one job: they run the same command, both make calls, and
        neither is the parent of the other. A child that runs the same command may be a forked worker
        instead."""
        line = self._commands.get(one)
        if line is None or line != self._commands.get(other):
            return False
        if one == other or not {one, other} <= self._calling:
            return False
        uses = self._facts.process(one), self._facts.process(other)
        return not {one, other} & {use.parent_pid for use in uses if use is not None}

    def is_local(self, pid: int) -> bool:
        """Returns whether a process is known to receive data only from this host."""
        return pid in self._local

    def of_row(
        self, pid: int, layer: str, operation: str, part: str, most_ns: float = math.inf
    ) -> list[Edge]:
        """Returns the waits of the threads of ``pid`` in one operation and one ``part`` of the split.

        ``most_ns`` is the time that the row has for this part, over all threads. A thread that waited for
        longer than that is left out, because its gap is still open and not in the row yet. If every thread
        waited for longer, all of them are returned.
        """
        threads = self._edges(self._of_row.get((pid, layer, operation), ()), part, REST_OF_LIMIT)
        fit = [edges for edges in threads if sum(edge.ns for edge in edges) <= most_ns]
        return [edge for edges in fit or threads for edge in edges]

    def waits_of(self, thread: ThreadId, part: str) -> list[Edge]:
        """Returns all waits of a thread in one part of its split."""
        threads = self._edges(self._of_thread.get((thread.pid, thread.tid), ()), part)
        return [edge for edges in threads for edge in edges]

    def timed(self, thread: ThreadId, part: str) -> tuple[Sequence[Edge], Sequence[Edge]]:
        """Returns the waits of a thread in one part of its split as they were measured: those that a timer
        ended, and all others. Waits for Python's global interpreter lock count as others."""
        key = thread.pid, thread.tid, part
        if (known := self._timed.get(key)) is not None:
            return known
        timers: list[Edge] = []
        others: list[Edge] = []
        for wait in self._of_thread.get(key[:2], ()):
            if wait.part == part:
                edge = Edge(wait.kind, wait.waker, float(wait.ns), float(wait.times))
                (timers if self._by_timer(thread.pid, edge) else others).append(edge)
        self._timed[key] = timers, others
        return timers, others

    def _by_timer(self, pid: int, edge: Edge) -> bool:
        """Returns whether timers ended ``edge``, waits of a process, other than waits for Python's global
        interpreter lock."""
        return edge.kind == TIMER or (edge.kind == TIMEOUT and not self.is_gil(pid, edge))

    def is_gil(self, pid: int, edge: Edge) -> bool:
        """Returns whether ``edge``, timed waits of a process, are waits for Python's global interpreter
        lock."""
        return (
            edge.kind == TIMEOUT
            and pid in self.evidence.python
            and edge.times > 0
            and GIL_INTERVAL_NS[0] <= edge.ns / edge.times < GIL_INTERVAL_NS[1]
        )

    def _edges(self, waits: Iterable[ThreadWait], part: str, least: float = 0.0) -> list[list[Edge]]:
        """Returns, for each thread, its waits in one part of the split. They are summed by kind and by
        waker. ``least`` is explained at `_without_limits`."""
        sums: defaultdict[ThreadId, dict[tuple[str, ThreadId], tuple[int, int]]] = defaultdict(dict)
        for wait in waits:
            if wait.part == part:
                of_thread, key = sums[wait.thread], (wait.kind, wait.waker)
                ns, times = of_thread.get(key, (0, 0))
                of_thread[key] = ns + wait.ns, times + wait.times
        return [
            self._without_limits(
                thread.pid, [Edge(*key, *figures) for key, figures in of_thread.items()], least
            )
            for thread, of_thread in sums.items()
        ]

    def _without_limits(self, pid: int, edges: list[Edge], least: float) -> list[Edge]:
        """Returns the waits of one thread, without waits that ended by a timeout. Waits for Python's global
        interpreter lock are kept, although they end by timeouts.

        After a timeout the thread waited again, until another thread or host ended the wait. The time of the
        timeouts is therefore added to the waits that these ended, in proportion to their lengths. If these
        waits were shorter than ``least`` of a timeout, on average, the thread slept by itself, and the time
        is left out. The time of waits for data that no thread was seen to end is added in the same way, if
        the process receives no data from other hosts. If no wait was ended otherwise, all waits are returned
        as they are.
        """
        limits: list[Edge] = []
        others: list[Edge] = []
        for edge in edges:
            unsent = edge.kind == "network" and not edge.waker.pid and pid in self._local
            (limits if unsent or self._by_timer(pid, edge) else others).append(edge)
        ended = [edge for edge in others if edge.waker.pid or edge.kind == "network"]
        ended_ns, limits_ns = sum(edge.ns for edge in ended), sum(edge.ns for edge in limits)
        if not limits or not ended_ns:
            return edges
        if ended_ns * sum(edge.times for edge in limits) < least * limits_ns * sum(
            edge.times for edge in ended
        ):
            return others
        factor = 1.0 + limits_ns / ended_ns
        return [edge._replace(ns=edge.ns * factor) if edge in ended else edge for edge in others]

    def work_of(self, thread: ThreadId) -> Work | None:
        """Returns how many ns a thread spent in each part of its split; None if the thread is not followed.
        If the sum is longer than the window, it is scaled down to the length of the window."""
        work = self._works.get((thread.pid, thread.tid))
        total_ns = sum(work.split_ns) if work is not None else 0
        if work is None or not total_ns:
            return None
        within = min(self._seconds * 1e9 / total_ns, 1.0)
        split: dict[str, float] = {part: ns * within for part, ns in zip(SPLITS, work.split_ns, strict=True)}
        return Work(split, total_ns * within)


def scaled_edges(edges: Iterable[Edge], most: float, share: float = 1.0) -> Sequence[Edge]:
    """Returns ``edges`` with their times multiplied by ``share``, and scaled down if their sum exceeds
    ``most`` ns."""
    edges = list(edges)
    total = share * sum(edge.ns for edge in edges)
    factor = share * (most / total if total > most else 1.0)
    return [edge._replace(ns=edge.ns * factor, times=edge.times * factor) for edge in edges]


def _by_process(facts: Facts) -> ThreadEvidence:
    waits = [
        ThreadWait(
            ThreadId(charge.tenant, charge.pid, charge.process, 0),
            charge.layer,
            charge.operation,
            charge.kind,
            # A thread of the same process may have held a lock, or handed something over. Without evidence
            # about threads, a hand-over is assumed.
            HAND_OVER if charge.kind == "lock" and charge.culprit_pid == charge.pid else charge.kind,
            ThreadId(charge.culprit_tenant, charge.culprit_pid, charge.culprit_process, 0),
            charge.ns,
            charge.times,
        )
        for charge in facts.window.evidence.charges
        if charge.kind in _FOLLOWED
    ]
    works = [
        ThreadWork(
            ThreadId(row.key.tenant, row.key.pid, row.key.process, 0),
            row.key.process,
            1,
            tuple(row.split_ns.get(part, 0) for part in SPLITS),
        )
        for row in facts.rows
        if row.key.operation == HOST_WORK and row.split_ns
    ]
    return ThreadEvidence(tuple(waits), tuple(works))
