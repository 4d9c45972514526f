"""Which thread waited for which, and what the threads that end such waits did: what causes are found by.

It is of one window and of one host, and is dropped once the window is diagnosed: chains say what follows
from it.
"""

from __future__ import annotations

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
"""A wait of a thread that a signal or a tracer had stopped."""


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
    `TIMEOUT`, `ENDED` or `STOPPED`."""
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


class Servers(NamedTuple):
    """Servers of other hosts to which a process is connected, as ``address:port``."""

    pid: int
    servers: tuple[str, ...]


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


def added(parts: Iterable[ThreadEvidence]) -> ThreadEvidence:
    """Returns what several windows that follow each other hold, oldest first, as that of one window."""
    parts = tuple(parts)
    if len(parts) == 1:
        return parts[0]
    waits: dict[tuple[object, ...], ThreadWait] = {}
    works: dict[ThreadId, ThreadWork] = {}
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
    return ThreadEvidence(
        tuple(waits.values()),
        tuple(works.values()),
        tuple(dict.fromkeys(each for part in parts for each in part.asks)),
        tuple({each.pid: each for part in parts for each in part.servers}.values()),
        tuple({each.pid: each for part in parts for each in part.commands}.values()),
        tuple(dict.fromkeys(pid for part in parts for pid in part.python)),
        tuple(dict.fromkeys(pid for part in parts for pid in part.local)),
    )
