"""Presents the waits and the work of threads as a graph, in which `following` follows waits to their cause.

If a window has no evidence by thread, such as one from a recording, each process stands for one thread.
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
    Stop,
    ThreadEvidence,
    ThreadId,
    ThreadWait,
    ThreadWork,
)
from stalltop.model.window import SPLITS

_FOLLOWED: Final = ("lock", "network", "process", "other")
"""Parts of the split that another thread may end."""
GIL_INTERVAL_NS: Final = (4_900_000, 8_000_000)
"""Mean length of the timed waits of a thread that waits for Python's global interpreter lock: its switch
interval is 5 ms (sys.getswitchinterval), and timers are late by up to some ms on a busy host."""


class Edge(NamedTuple):
    """Waits of one thread that are of one kind and were ended by one other thread, the waker."""

    kind: str
    """What the thread waited for, as in ``ThreadWait``."""
    waker: ThreadId
    ns: float
    times: float


@dataclass(frozen=True, slots=True)
class Work:
    """How a thread spent its time."""

    split_ns: Mapping[str, float]
    total_ns: float


class ThreadGraph:
    """Threads of one window: what they did, and for which others they waited."""

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
        """Returns how long each process that started in the window took until it first ended a wait, ns."""
        found: dict[int, int] = {}
        for work in self._works.values():
            if work.startup_ns:
                found[work.thread.pid] = max(work.startup_ns, found.get(work.thread.pid, 0))
        return found

    def is_caller(self, thread: ThreadId) -> bool:
        """Returns whether a thread makes traced calls."""
        return (thread.pid, thread.tid) in self._callers

    def asks(self, client: int, server: int) -> bool:
        """Returns whether process ``client`` has a connection to process ``server`` as a client."""
        return (client, server) in self._asks

    def asks_elsewhere(self, pid: int) -> bool:
        """Returns whether a process may wait for servers of other hosts."""
        return bool(self._servers.get(pid))

    def stop_of(self, pid: int, kind: str) -> Stop | None:
        """Returns what is known of a process that was stopped in the way ``kind``; None if nothing is."""
        return next((stop for stop in self.stops if (stop.pid, stop.kind) == (pid, kind)), None)

    def are_ranks(self, one: int, other: int) -> bool:
        """Returns whether two processes are ranks of one job: they run the same command and make calls, and
        neither is the parent of the other. A child may be a worker that was forked from its parent."""
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
        """Returns the waits of the threads of ``pid`` in one operation and one part of its split. ``most_ns``
        is the time that the row has for all threads. A thread that waited for longer is left out, unless all
        did: its gap is still open, and not in the row yet."""
        threads = self._edges(self._of_row.get((pid, layer, operation), ()), part)
        fit = [edges for edges in threads if sum(edge.ns for edge in edges) <= most_ns]
        return [edge for edges in fit or threads for edge in edges]

    def waits_of(self, thread: ThreadId, part: str) -> list[Edge]:
        """Returns all waits of a thread in one part of its split."""
        threads = self._edges(self._of_thread.get((thread.pid, thread.tid), ()), part)
        return [edge for edges in threads for edge in edges]

    def is_gil(self, pid: int, edge: Edge) -> bool:
        """Returns whether timed waits of a process are those for Python's interpreter lock."""
        return (
            edge.kind == TIMEOUT
            and pid in self.evidence.python
            and edge.times > 0
            and GIL_INTERVAL_NS[0] <= edge.ns / edge.times < GIL_INTERVAL_NS[1]
        )

    def _edges(self, waits: Iterable[ThreadWait], part: str) -> list[list[Edge]]:
        """Returns for each thread its waits in one part of the split, summed by kind and by the thread that
        ended them."""
        sums: defaultdict[ThreadId, dict[tuple[str, ThreadId], tuple[int, int]]] = defaultdict(dict)
        for wait in waits:
            if wait.part == part:
                of_thread, key = sums[wait.thread], (wait.kind, wait.waker)
                ns, times = of_thread.get(key, (0, 0))
                of_thread[key] = ns + wait.ns, times + wait.times
        return [
            self._without_limits(thread.pid, [Edge(*key, *figures) for key, figures in of_thread.items()])
            for thread, of_thread in sums.items()
        ]

    def _without_limits(self, pid: int, edges: list[Edge]) -> list[Edge]:
        """Returns the waits of one thread, without those that a time limit ended. After a time limit the
        thread waited again, until another thread ended the wait; so the time is added to the waits that other
        threads ended, in proportion. A wait for data that no thread ended counts like one that a time limit
        ended, if the process receives no data from other hosts. Returns all waits if no thread ended any."""
        limits: list[Edge] = []
        others: list[Edge] = []
        for edge in edges:
            unsent = edge.kind == "network" and not edge.waker.pid and pid in self._local
            timed = edge.kind == TIMEOUT and not self.is_gil(pid, edge)
            (limits if unsent or timed else others).append(edge)
        ended_ns = sum(edge.ns for edge in others if edge.waker.pid)
        if not limits or not ended_ns:
            return edges
        factor = 1.0 + sum(edge.ns for edge in limits) / ended_ns
        return [edge._replace(ns=edge.ns * factor) if edge.waker.pid else edge for edge in others]

    def work_of(self, thread: ThreadId) -> Work | None:
        """Returns how a thread spent its time, ns. A time that is longer than the window is scaled down to
        the length of the window. Returns None if the thread is not followed."""
        work = self._works.get((thread.pid, thread.tid))
        total_ns = sum(work.split_ns) if work is not None else 0
        if work is None or not total_ns:
            return None
        within = min(self._seconds * 1e9 / total_ns, 1.0)
        split: dict[str, float] = {part: ns * within for part, ns in zip(SPLITS, work.split_ns, strict=True)}
        return Work(split, total_ns * within)


def scaled_edges(edges: Iterable[Edge], most: float, share: float = 1.0) -> Sequence[Edge]:
    """Returns ``share`` of the waits of ``edges``, scaled down to a sum of at most ``most`` ns."""
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
            # A thread of the same process may have held a lock or handed something over; without evidence by
            # thread, the latter is assumed.
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
