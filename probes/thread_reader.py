"""Names threads that wait, and the threads that they wait for. Reads more about their processes for the
diagnosis: connections, commands, who stopped them, and whether they run Python."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, starmap
from pathlib import Path
from typing import Final

from stalltop.model.thread_evidence import (
    ENDED,
    FROZEN,
    FSYNC,
    HAND_OVER,
    HELD_BACK,
    NOBODY,
    STOPPED,
    TIMEOUT,
    TIMER,
    TRACED,
    Asks,
    Command,
    Servers,
    Stop,
    ThreadEvidence,
    ThreadId,
    ThreadWait,
    ThreadWork,
)
from stalltop.model.window import SPLITS
from stalltop.probes import operations
from stalltop.probes.confined.commands import ProcessCommands
from stalltop.probes.confined.link import Answerer, Here
from stalltop.probes.host.connections import Connections
from stalltop.probes.host.events import RawStop
from stalltop.probes.layout import NESTED, How
from stalltop.probes.maps.raw import RawWait, RawWork
from stalltop.probes.tenants.owners import Owners

MOST_PAIRS: Final = 32
"""Maximum number of pairs of processes whose connections and commands are read for a window: those in which
one process waited longest for the other."""
LEAST_ASKED_NS: Final = 20_000_000
"""The connections and commands of processes are read only for a wait of at least this long in a window,
ns."""
_WAITS: Final = {
    ("lock", How.HELD): "lock",
    ("lock", How.PLAIN): HAND_OVER,
    ("other", How.STOPPED): STOPPED,
    ("disk", How.SYNC): FSYNC,
    ("other", How.TRACED): TRACED,
    ("other", How.FROZEN): FROZEN,
    ("network", How.TIMED): TIMER,
}
_HELD: Final = {How.STOPPED: STOPPED, How.TRACED: TRACED, How.FROZEN: FROZEN}
MOST_STOPPERS: Final = 1024
"""Maximum number of processes and cgroups whose last stopper is remembered. It is remembered longer than one
window, because a stop may last for hours."""
_TRACER: Final = re.compile(rb"^TracerPid:\s*(\d+)", re.MULTILINE)


class ThreadReader:
    """Makes the evidence of threads from what the kernel side reports. Used from one thread."""

    def __init__(self, owners: Owners, root: Path = Path("/"), asks: Answerer | None = None) -> None:
        """``asks`` reads command lines of processes; by default, that is done in this process."""
        self._owners = owners
        self._proc = root / "proc"
        self._connections = Connections(root)
        self._commands = ProcessCommands(asks or Here(), root)
        self._stoppers: dict[tuple[int, int], tuple[ThreadId, str]] = {}
        """Who last stopped a process or cgroup, and by which signal. Keys: (PID, 0) for a process, (0, cgroup
        id) for a cgroup."""

    def read(
        self, waits: Iterable[RawWait], works: Iterable[RawWork], stops: Iterable[RawStop]
    ) -> ThreadEvidence:
        """Returns the evidence of a window."""
        waits, works = tuple(waits), tuple(works)
        self._connections.begin()
        self._commands.begin()
        self._note(stops)
        made = tuple(map(self._wait, waits))
        ended_by_timers = {wait.thread.pid for wait in made if wait.kind == TIMEOUT}
        python = self._commands.python(sorted(ended_by_timers))
        pairs, unsent = _waited_long(made), _waited_unsent(made)
        return ThreadEvidence(
            made,
            tuple(self._work(raw, named=raw.tgid in python) for raw in works),
            tuple(dict.fromkeys(Asks(*pair) for pair in self._connections.clients(pairs))),
            tuple(Servers(pid, found) for pid in unsent if (found := self._connections.servers(pid))),
            tuple(starmap(Command, self._commands.commands(sorted({*chain(*pairs)})).items())),
            python,
            tuple(pid for pid in unsent if self._connections.local(pid)),
            stops=self._stops(zip(waits, made, strict=True), works),
        )

    def close(self) -> None:
        """Ends what reads command lines. May be called twice."""
        self._commands.close()

    def _note(self, stops: Iterable[RawStop]) -> None:
        for stop in stops:
            by = NOBODY
            if stop.by_tgid:
                by = self._thread(stop.by_tgid, 0, stop.by_cgroup_id)
                by = by._replace(process=stop.by or by.process)
            name = signal.Signals(stop.signal).name if stop.signal else ""
            key = (stop.tgid, stop.cgroup_id)
            self._stoppers.pop(key, None)
            self._stoppers[key] = by, name
        for key in list(self._stoppers)[:-MOST_STOPPERS]:
            del self._stoppers[key]

    def _stops(
        self, waits: Iterable[tuple[RawWait, ThreadWait]], works: Iterable[RawWork]
    ) -> tuple[Stop, ...]:
        """Returns which processes were stopped and, as far as that is known, who stopped them."""
        found: dict[tuple[int, str], Stop] = {}
        for raw, wait in waits:
            if wait.kind in HELD_BACK and (raw.tgid, wait.kind) not in found:
                stop = self._stop(raw.tgid, raw.tid, raw.cgroup_id, wait.kind)
                # A debugger that is gone woke the thread when it left, so it is the recorded waker.
                by = wait.waker if wait.kind == TRACED and not stop.by.pid else stop.by
                found[raw.tgid, wait.kind] = replace(stop, by=by)
        for work in works:
            if work.held:
                kind = _HELD[How(work.held)]
                stop = found.get((work.tgid, kind)) or self._stop(work.tgid, work.tid, work.cgroup_id, kind)
                found[work.tgid, kind] = replace(stop, still_ns=max(stop.still_ns, work.held_ns))
        return tuple(found.values())

    def _stop(self, pid: int, tid: int, cgroup_id: int, kind: str) -> Stop:
        if kind == TRACED:
            tracer = self._tracer(pid, tid)
            return Stop(pid, kind, self._thread(tracer, 0, 0) if tracer else NOBODY)
        by, name = self._stoppers.get((pid, 0) if kind == STOPPED else (0, cgroup_id), (NOBODY, ""))
        return Stop(pid, kind, by, name)

    def _tracer(self, pid: int, tid: int) -> int:
        """Returns the debugger of a thread, which traces it by ptrace; 0 if there is none any more."""
        try:
            found = _TRACER.search((self._proc / str(pid) / "task" / str(tid) / "status").read_bytes())
        except OSError:
            return 0
        return int(found[1]) if found else 0

    def _wait(self, raw: RawWait) -> ThreadWait:
        operation = operations.operation(raw.operation & (NESTED - 1))
        part = SPLITS[raw.part]
        kind = _WAITS.get((part, How(raw.how)), part)
        # A thread that ends also releases its locks. So a futex or file lock wait that it ended by exiting
        # counts as a wait for a lock.
        if raw.how == How.ENDED and part != "lock":
            kind = ENDED
        if kind in ("lock", HAND_OVER) and not raw.waker_tgid:
            kind = TIMEOUT
        waker = NOBODY
        if raw.waker_tgid:
            waker = self._thread(raw.waker_tgid, raw.waker_tid, raw.waker_cgroup_id)
        return ThreadWait(
            self._thread(raw.tgid, raw.tid, raw.cgroup_id),
            operation.layer,
            operation.name,
            part,
            kind,
            waker,
            raw.ns,
            raw.times,
        )

    def _work(self, raw: RawWork, *, named: bool) -> ThreadWork:
        return ThreadWork(
            self._thread(raw.tgid, raw.tid, raw.cgroup_id),
            self._name(raw.tgid, raw.tid) if named else "",
            raw.link,
            raw.split_ns,
            raw.startup_ns,
        )

    def _thread(self, pid: int, tid: int, cgroup_id: int) -> ThreadId:
        return ThreadId(*self._owners.of(pid, cgroup_id), tid)

    def _name(self, pid: int, tid: int) -> str:
        try:
            raw = (self._proc / str(pid) / "task" / str(tid) / "comm").read_bytes()
        except OSError:
            return ""
        return raw.decode(errors="replace").rstrip("\n")


def _waited_long(waits: Iterable[ThreadWait]) -> list[tuple[int, int]]:
    """Returns pairs of processes. The first process of a pair waited long for data from the second."""
    waited = Counter[tuple[int, int]]()
    for wait in waits:
        if wait.kind in ("network", "process") and wait.waker.pid not in (0, wait.thread.pid):
            waited[wait.thread.pid, wait.waker.pid] += wait.ns
    return [pair for pair, ns in waited.most_common(MOST_PAIRS) if ns >= LEAST_ASKED_NS]


def _waited_unsent(waits: Iterable[ThreadWait]) -> list[int]:
    """Returns processes that waited long for data which no process of this host sent."""
    waited = Counter[int]()
    for wait in waits:
        if wait.kind == "network" and not wait.waker.pid:
            waited[wait.thread.pid] += wait.ns
    return [pid for pid, ns in waited.most_common(MOST_PAIRS) if ns >= LEAST_ASKED_NS]
