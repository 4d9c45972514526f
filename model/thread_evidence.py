"""Which thread waited for which, what the threads that end such waits did, and which interrupts took their
CPUs: what causes are found by.

It is of one window and of one host, and is dropped once the window is diagnosed: chains say what follows
from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

HAND_OVER: Final = "hand-over"
"""A wait by a futex for what another thread had to do first: `bpf/held.h` tells it from a wait for a lock."""
TIMEOUT: Final = "timeout"
"""A wait by a futex that no thread ended."""
ENDED: Final = "ended"
"""A wait that the end of the waker ended."""
STOPPED: Final = "stopped"
"""A wait of a thread that a signal had stopped."""
TRACED: Final = "traced"
"""A wait of a thread that a debugger had stopped."""
FROZEN: Final = "frozen"
"""A wait of a thread in a frozen cgroup."""
HELD_BACK: Final = (STOPPED, TRACED, FROZEN)
"""Waits of threads that could have run. Who ends them is who lets the thread go on."""

FSYNC: Final = "fsync"
"""A wait for a disk in fsync(2) or a call like it, until what was written is on the device."""


class ThreadId(NamedTuple):
    """One thread."""

    tenant: str
    pid: int
    process: str
    tid: int


NOBODY: Final = ThreadId("", 0, "kernel", 0)
"""What ends a wait that no thread ends: a timer, a device, a packet of another host."""


@dataclass(frozen=True, slots=True)
class ThreadWait:
    """Waits of one thread, in one operation, that one other thread or `NOBODY` ended."""

    thread: ThreadId
    layer: str
    operation: str
    """The outermost call, or a name of ``model.evidence``: host gap, host work."""
    part: str
    """Part of the split in which they are counted, a name of ``model.window.SPLITS``."""
    kind: str
    """``network``, ``process``, ``other``, ``lock`` (for one that the waker held), ``sleep``, `HAND_OVER`,
    `TIMEOUT`, `ENDED`, `FSYNC` or one of `HELD_BACK`."""
    waker: ThreadId
    ns: int
    times: int


@dataclass(frozen=True, slots=True)
class ThreadWork:
    """What a thread did that makes calls, or is followed."""

    thread: ThreadId
    name: str
    """Name of the thread (its ``comm``), read where the holder of an interpreter's lock is named; else ''."""
    link: int
    """0: it makes calls; 1: it wakes threads that do; 2 and more: it wakes those of the link before."""
    split_ns: tuple[int, ...]
    """Its time by part, in the order of ``model.window.SPLITS``."""
    startup_ns: int = 0
    """Time from the start of its process to its first wake-up, if both were in the window; else 0."""


class Asks(NamedTuple):
    """A process that has a connection to another one, as a client to a server."""

    client: int
    server: int


class Server(NamedTuple):
    """A server of another host, as one of its clients sees it."""

    address: str
    """``address:port``."""
    sent_bytes: int = 0
    """Bytes that it acknowledged in the window, over connections that were there before."""
    received_bytes: int = 0
    """The same, of bytes that it sent."""
    rtt_ns: int = 0
    """Round-trip time of its fastest connection; 0 if it is not known."""


class Servers(NamedTuple):
    """Servers of other hosts to which a process is connected, the one that sent most first."""

    pid: int
    servers: tuple[Server, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """What is known of a process that was stopped in one of the ways of `HELD_BACK`."""

    pid: int
    kind: str
    by: ThreadId = NOBODY
    """Who stopped it, a process; `NOBODY` if that is not known."""
    signal: str = ""
    """The signal that did it, such as SIGSTOP, if it is known."""
    still_ns: int = 0
    """Time in the window for which a thread was stopped that has not gone on yet."""


class Placed(NamedTuple):
    """How often threads of a process had a CPU, or waited for it, when samples were taken."""

    pid: int
    cpu: int
    times: int


class CpuInterrupts(NamedTuple):
    """Time of one CPU, and how much of it interrupts had."""

    cpu: int
    wall_ns: int
    idle_ns: int
    ns: int
    """Time in interrupts: of devices, and softirqs outside threads of their own."""
    kinds: tuple[tuple[str, int], ...]
    """The most frequent kinds, such as ``NET_RX`` or ``IRQ 41 (eth0-rx-0)``, with their number; empty if not
    known."""


class Command(NamedTuple):
    """What a process runs."""

    pid: int
    line: bytes
    """Its command line without the numbers: that of the ranks of a job is the same."""


@dataclass(frozen=True, slots=True)
class ThreadEvidence:
    """What is known of the threads of a window."""

    waits: tuple[ThreadWait, ...] = ()
    works: tuple[ThreadWork, ...] = ()
    asks: tuple[Asks, ...] = ()
    """Pairs of processes of which one waited for the other."""
    servers: tuple[Servers, ...] = ()
    """Servers elsewhere to which processes are connected that waited for data which no process of this host
    sent. Processes that are servers themselves are left out."""
    commands: tuple[Command, ...] = ()
    """What processes run that waited long for data of another one, and what those others run."""
    python: tuple[int, ...] = ()
    """Processes that run a Python interpreter, of those with waits of kind `TIMEOUT`."""
    local: tuple[int, ...] = ()
    """Processes that waited long for data that no process of this host sent, though they are connected to
    this host only: a timer ended these waits."""
    placed: tuple[Placed, ...] = ()
    """On which CPUs the threads with a record were."""
    interrupts: tuple[CpuInterrupts, ...] = ()
    """All CPUs, in windows in which interrupts had a noticeable part of one."""
    stops: tuple[Stop, ...] = ()
    """One for each process and way in which it was stopped."""


def added(parts: Iterable[ThreadEvidence]) -> ThreadEvidence:
    """Returns what several windows that follow each other hold, oldest first, as that of one window."""
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
                wait = replace(wait, ns=known.ns + wait.ns, times=known.times + wait.times)
            waits[key] = wait
        for work in part.works:
            before = works.get(work.thread)
            if before is not None:
                split = tuple(a + b for a, b in zip(before.split_ns, work.split_ns, strict=True))
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
