"""Evidence about single threads: which thread waited for which, what the threads that ended these waits did,
and how much CPU time interrupts took.

The evidence belongs to one window of one host. Diagnosis finds causes with it; once a window is diagnosed,
its chains contain the conclusions, and this evidence is dropped.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

HAND_OVER: Final = "hand-over"
"""Kind of wait: a futex wait for something that another thread had to do first, such as to compute a result.
`bpf/waits/held.h` distinguishes this kind from a wait for a lock."""
TIMEOUT: Final = "timeout"
"""Kind of wait: a futex wait that no thread ended, so its timeout expired."""
TIMER: Final = "timer"
"""Kind of wait: a wait for data that reached its time limit, so a timer ended it."""
ENDED: Final = "ended"
"""Kind of wait: the wait ended because another thread exited, such as a wait for the end of a process."""
STOPPED: Final = "stopped"
"""Kind of wait: the thread was stopped by a signal."""
TRACED: Final = "traced"
"""Kind of wait: the thread was stopped by a debugger."""
FROZEN: Final = "frozen"
"""Kind of wait: the thread was in a frozen cgroup."""
HELD_BACK: Final = (STOPPED, TRACED, FROZEN)
"""Kinds of waits in which a thread was stopped from outside. The waker recorded for such a wait is the thread
that let it continue (by SIGCONT, with a debugger, or by thawing the cgroup)."""

FSYNC: Final = "fsync"
"""Kind of wait: the thread waited in fsync(2) or a similar call until the data of earlier writes were on
disk."""


class ThreadId(NamedTuple):
    """One thread."""

    tenant: str
    pid: int
    process: str
    tid: int


NOBODY: Final = ThreadId("", 0, "kernel", 0)
"""Waker of a wait that no thread ended. A timer, a device or a packet from another host ended the wait."""


@dataclass(frozen=True, slots=True)
class ThreadWait:
    """Sum of the waits of one thread, in one operation, that one other thread (or `NOBODY`) ended."""

    thread: ThreadId
    layer: str
    operation: str
    """Operation in which the thread waited: that of the outermost call, or ``HOST_GAP`` or ``HOST_WORK`` of
    ``model.evidence``."""
    part: str
    """Part of the split in which the waits are counted, a name of ``model.window.SPLITS``."""
    kind: str
    """``network``, ``process``, ``other``, ``sleep``, ``lock`` (for a lock that the waker held),
    `HAND_OVER`, `TIMEOUT`, `TIMER`, `ENDED`, `FSYNC` or one of `HELD_BACK`."""
    waker: ThreadId
    ns: int
    times: int


@dataclass(frozen=True, slots=True)
class ThreadWork:
    """Where the time of one thread went. There are records for followed threads, and for threads that make
    traced calls, except those that ran nearly all the time."""

    thread: ThreadId
    name: str
    """Name of the thread (its ``comm``), for threads of the processes in ``ThreadEvidence.python``, where
    diagnosis names the thread that holds the interpreter's lock; '' for all other threads."""
    link: int
    """Distance in the chain of wake-ups. 0: the thread makes traced calls; 1: it wakes threads of distance 0;
    n: it wakes threads of distance n - 1."""
    split_ns: tuple[int, ...]
    """Time of the thread in ns by part, in the order of ``model.window.SPLITS``."""
    startup_ns: int = 0
    """Time in ns from the start of the thread's process until stalltop first saw the thread wake another one.
    Given in the window in which stalltop saw that, if the process started after tracing began; else 0."""


class Asks(NamedTuple):
    """Two processes that are connected: ``client`` is connected to ``server`` as a client."""

    client: int
    server: int


class Server(NamedTuple):
    """A server on another host, as one client process on this host sees it."""

    address: str
    """``address:port``."""
    sent_bytes: int = 0
    """Bytes from the client that the server acknowledged in the window, over connections whose counts
    stalltop also read in the previous window."""
    received_bytes: int = 0
    """Bytes that the client received from the server in the window, over connections whose counts stalltop
    also read in the previous window."""
    rtt_ns: int = 0
    """Round-trip time in ns of the fastest connection to the server; 0 if unknown."""


class Servers(NamedTuple):
    """Servers on other hosts to which the process ``pid`` is connected. The server that sent most comes
    first."""

    pid: int
    servers: tuple[Server, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """A process that was stopped, traced or frozen, and who did that."""

    pid: int
    kind: str
    """One of `HELD_BACK`."""
    by: ThreadId = NOBODY
    """The process that stopped this process; `NOBODY` if unknown."""
    signal: str = ""
    """Name of the signal that stopped the process, such as SIGSTOP; '' if unknown, or if no signal did."""
    still_ns: int = 0
    """Time in ns, within the window, for which a thread that is still stopped has been stopped: the longest
    time if several threads are still stopped; 0 if all threads have continued."""


class Placed(NamedTuple):
    """How many samples found a thread of the process ``pid`` running on the CPU ``cpu``, or waiting to run
    there."""

    pid: int
    cpu: int
    times: int
    """Number of samples; two threads in one sample count twice."""


class CpuInterrupts(NamedTuple):
    """Time of one CPU within the window, and how much of it interrupts took."""

    cpu: int
    wall_ns: int
    idle_ns: int
    ns: int
    """Time in ns in interrupts: in hardware interrupts, and in softirqs that do not run in ksoftirqd."""
    kinds: tuple[tuple[str, int], ...]
    """(kind, number of interrupts) of the most frequent kinds, such as ``NET_RX`` or ``IRQ 41 (eth0-rx-0)``;
    empty if unknown."""


class Command(NamedTuple):
    """Command line of a process."""

    pid: int
    line: bytes
    """The command line without its digits, so that the ranks of one job have equal lines; b"" if unknown."""


@dataclass(frozen=True, slots=True)
class ThreadEvidence:
    """All evidence about single threads in a window."""

    waits: tuple[ThreadWait, ...] = ()
    works: tuple[ThreadWork, ...] = ()
    asks: tuple[Asks, ...] = ()
    """Pairs of connected processes in which one process waited long for data of the other."""
    servers: tuple[Servers, ...] = ()
    """Servers on other hosts, for each process that waited long for data that no process of this host sent.
    Processes that are servers themselves are left out, because they may have waited for their own
    clients."""
    commands: tuple[Command, ...] = ()
    """Command lines of the processes that waited long for data of another process, and of the processes that
    they waited for."""
    python: tuple[int, ...] = ()
    """PIDs of the processes with waits of kind `TIMEOUT` that run a Python interpreter."""
    local: tuple[int, ...] = ()
    """PIDs of the processes that waited long for data that no process of this host was seen to send, although
    they are connected to this host only."""
    placed: tuple[Placed, ...] = ()
    """On which CPUs the threads that make traced calls or are followed ran, or waited to run."""
    interrupts: tuple[CpuInterrupts, ...] = ()
    """One record for each CPU of the host; empty if interrupts took no noticeable share of any CPU."""
    stops: tuple[Stop, ...] = ()
    """One record for each process and each kind of `HELD_BACK` in which it was stopped."""


def added(parts: Iterable[ThreadEvidence]) -> ThreadEvidence:
    """Adds up the evidence of consecutive windows, oldest first."""
    parts = tuple(parts)
    if len(parts) == 1:
        return parts[0]
    waits: dict[tuple[object, ...], ThreadWait] = {}
    works: dict[ThreadId, ThreadWork] = {}
    stops: dict[tuple[int, str], Stop] = {}
    for part in parts:
        for wait in part.waits:
            key = (wait.thread, wait.layer, wait.operation, wait.part, wait.kind, wait.waker)
            known = waits.get(key)
            if known is not None:
                wait = ThreadWait(*key, known.ns + wait.ns, known.times + wait.times)
            waits[key] = wait
        for work in part.works:
            before = works.get(work.thread)
            if before is not None:
                split = tuple(map(operator.add, before.split_ns, work.split_ns))
                startup_ns = before.startup_ns or work.startup_ns
                work = replace(work, split_ns=split, startup_ns=startup_ns)
            works[work.thread] = work
        for stop in part.stops:
            earlier = stops.get((stop.pid, stop.kind))
            still_ns = stop.still_ns + (earlier.still_ns if earlier is not None else 0)
            stops[stop.pid, stop.kind] = replace(stop, still_ns=still_ns)
    return ThreadEvidence(
        tuple(waits.values()),
        tuple(works.values()),
        tuple(dict.fromkeys(each for part in parts for each in part.asks)),
        _servers(parts),
        tuple({each.pid: each for part in parts for each in part.commands}.values()),
        tuple(dict.fromkeys(pid for part in parts for pid in part.python)),
        tuple(dict.fromkeys(pid for part in parts for pid in part.local)),
        _placed(placed for part in parts for placed in part.placed),
        _interrupts(one for part in parts for one in part.interrupts),
        tuple(stops.values()),
    )


def _placed(parts: Iterable[Placed]) -> tuple[Placed, ...]:
    times = Counter[tuple[int, int]]()
    for part in parts:
        times[part.pid, part.cpu] += part.times
    return tuple(Placed(*where, count) for where, count in times.items())


def _interrupts(parts: Iterable[CpuInterrupts]) -> tuple[CpuInterrupts, ...]:
    sums: dict[int, CpuInterrupts] = {}
    for part in parts:
        known = sums.get(part.cpu, CpuInterrupts(part.cpu, 0, 0, 0, ()))
        kinds = Counter(dict(known.kinds)) + Counter(dict(part.kinds))
        sums[part.cpu] = CpuInterrupts(
            part.cpu,
            known.wall_ns + part.wall_ns,
            known.idle_ns + part.idle_ns,
            known.ns + part.ns,
            tuple(kinds.most_common()),
        )
    return tuple(sums.values())


def _servers(parts: Iterable[ThreadEvidence]) -> tuple[Servers, ...]:
    found: dict[int, dict[str, Server]] = {}
    for each in (each for part in parts for each in part.servers):
        known = found.setdefault(each.pid, {})
        for server in each.servers:
            before = known.get(server.address, Server(server.address))
            known[server.address] = server._replace(
                sent_bytes=before.sent_bytes + server.sent_bytes,
                received_bytes=before.received_bytes + server.received_bytes,
            )
    return tuple(Servers(pid, tuple(servers.values())) for pid, servers in found.items())
