"""Reads from /proc what processes use (CPU time, page faults, memory), their priority and their allowed
CPUs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from stalltop.model.cpu_list import list_of

SWAP_LOOKS: Final = 5
"""The swap of a process is read only once in this many samples, because reading it takes as long as reading
all other figures."""
CHILDREN_LOOKS: Final = 5
"""Number of samples after which the children of a process are read again."""
_NS_PER_TICK: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_STAT_BYTES: Final = 1024
_CPU_CLOCK: Final = 2
"""Number of the kind of clock that counts a process's CPU time (CPUCLOCK_SCHED, clock_getcpuclockid(3))."""
_SWAPPED: Final = re.compile(rb"^pswp(in|out) (\d+)$", re.MULTILINE)
_SWAP: Final = re.compile(rb"^VmSwap:\s*(\d+) kB", re.MULTILINE)


class Use(NamedTuple):
    """Figures of one process. Sums are since the previous sample; all other figures are present values."""

    cpu_ns: int
    minor_faults: int
    major_faults: int
    threads: int
    nice: int
    rss_bytes: int
    swap_bytes: int
    parent_pid: int
    allowed: str
    """CPUs that its main thread may run on, as a Linux CPU list; '' if unknown."""
    allowed_cpus: int


class _Stat(NamedTuple):
    """Fields of /proc/PID/stat (proc(5)), in the order of that file."""

    parent_pid: int
    minor_faults: int
    major_faults: int
    cpu_ns: int
    nice: int
    threads: int
    rss_pages: int


@dataclass(slots=True)
class _Watched:
    fd: int
    before: _Stat | None = None
    """The fields that were read in the previous sample; None before the first sample. Sums do not include the
    time before the first sample."""
    swap_bytes: int = 0
    looks: int = 0
    allowed: set[int] = field(default_factory=set)
    """CPUs that its main thread may run on; empty if unknown."""
    allowed_text: str = ""


class ProcessUses:
    """Samples processes, once a second. Used from one thread.

    The files of each process are kept open. An open ``/proc/PID/stat`` always belongs to the same process, so
    a new process that has reused the PID is not mistaken for the old one.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = str(root / "proc")
        self._own = root == Path("/")
        self._watched: dict[int, _Watched] = {}

    def look(self, pids: Collection[int]) -> dict[int, Use]:
        """Returns the figures of each of ``pids`` that is alive: sums since the previous sample, and present
        values.

        For a process that is sampled for the first time, all sums are 0. Processes that are not in ``pids``
        are forgotten.
        """
        for pid in self._watched.keys() - pids:
            self._forget(pid)
        uses = {}
        for pid in pids:
            use = self._look(pid)
            if use is not None:
                uses[pid] = use
        return uses

    def close(self) -> None:
        """Closes all files. May be called twice."""
        for pid in list(self._watched):
            self._forget(pid)

    def _look(self, pid: int) -> Use | None:
        watched = self._watched.get(pid)
        stat = _stat(watched.fd) if watched is not None else None
        if watched is None or stat is None:
            self._forget(pid)
            try:
                watched = _Watched(os.open(f"{self._proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return None
            self._watched[pid] = watched
            stat = _stat(watched.fd)
            if stat is None:
                self._forget(pid)
                return None
        if not watched.looks or (watched.looks + pid) % SWAP_LOOKS == 0:
            watched.swap_bytes = self._swap_bytes(pid)
        watched.looks += 1
        stat = stat._replace(cpu_ns=self._cpu_ns(pid) or stat.cpu_ns)
        before, watched.before = watched.before or stat, stat
        allowed = self._allowed(pid)
        if allowed != watched.allowed:
            watched.allowed, watched.allowed_text = allowed, list_of(allowed)
        return Use(
            cpu_ns=max(stat.cpu_ns - before.cpu_ns, 0),
            minor_faults=max(stat.minor_faults - before.minor_faults, 0),
            major_faults=max(stat.major_faults - before.major_faults, 0),
            threads=stat.threads,
            nice=stat.nice,
            rss_bytes=stat.rss_pages * _PAGE_BYTES,
            swap_bytes=watched.swap_bytes,
            parent_pid=stat.parent_pid,
            allowed=watched.allowed_text,
            allowed_cpus=len(allowed),
        )

    def _forget(self, pid: int) -> None:
        watched = self._watched.pop(pid, None)
        if watched is not None:
            os.close(watched.fd)

    def _cpu_ns(self, pid: int) -> int:
        """Returns the CPU time, in ns, of all threads of a process, from the CPU clock of the process; 0 if
        it cannot be read. /proc has this time only in ticks of 10 ms."""
        try:
            return time.clock_gettime_ns(~pid << 3 | _CPU_CLOCK) if self._own else 0
        except OSError:
            return 0

    def _allowed(self, pid: int) -> set[int]:
        try:
            return os.sched_getaffinity(pid) if self._own else set()
        except OSError:
            return set()

    def _swap_bytes(self, pid: int) -> int:
        try:
            with open(f"{self._proc}/{pid}/status", "rb") as status:
                found = _SWAP.search(status.read())
        except OSError:
            return 0
        return int(found[1]) * 1024 if found else 0


def _stat(fd: int) -> _Stat | None:
    """Returns the fields of the open file ``/proc/PID/stat``, or None if the process is gone."""
    try:
        # The name, in parentheses, may contain any characters. The third field begins after it.
        fields = os.pread(fd, _STAT_BYTES, 0).rpartition(b")")[2].split()
        return _Stat(
            parent_pid=int(fields[1]),
            minor_faults=int(fields[7]),
            major_faults=int(fields[9]),
            cpu_ns=(int(fields[11]) + int(fields[12])) * _NS_PER_TICK,
            nice=int(fields[16]),
            threads=int(fields[17]),
            rss_pages=int(fields[21]),
        )
    except (OSError, IndexError, ValueError):
        return None


class Children:
    """Lists the children of processes. Used from one thread.

    The children of a process are read again if it forked, and once in ``CHILDREN_LOOKS`` samples, because a
    process may inherit the children of another one. Until then, they may include processes that have ended.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = str(root / "proc")
        self._known: dict[int, tuple[int, set[int]]] = {}
        """By PID: the number of samples since the children were read, and the children."""

    def look(self, pids: Collection[int], forked: Collection[int]) -> set[int]:
        """Returns the children of ``pids``. ``forked`` has the processes that forked since the previous
        sample."""
        found = {}
        for pid in pids:
            looks, known = self._known.get(pid, (CHILDREN_LOOKS, set()))
            if looks >= CHILDREN_LOOKS or pid in forked:
                looks, known = 0, children(pid, self._proc)
            found[pid] = looks + 1, known
        self._known = found
        return set().union(*(known for _, known in found.values()))


def children(pid: int, proc: str = "/proc") -> set[int]:
    """Returns the children of process ``pid``; none if the Linux kernel does not list them."""
    found: set[int] = set()
    with suppress(OSError):
        for tid in os.listdir(f"{proc}/{pid}/task"):
            with suppress(OSError), open(f"{proc}/{pid}/task/{tid}/children", "rb", buffering=0) as listed:
                found.update(map(int, listed.read().split()))
    return found


class Swapped(NamedTuple):
    """Bytes that the host moved to and from swap since the previous sample."""

    in_bytes: int
    out_bytes: int


class SwapReader:
    """Reads how much memory is swapped in and out (/proc/vmstat). Used from one thread."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._path = str(root / "proc/vmstat")
        self._before = self._pages()

    def look(self) -> Swapped:
        """Returns the bytes moved to and from swap since the previous sample, or since this object was
        created."""
        before, self._before = self._before, self._pages()
        into, out = (max(now - then, 0) * _PAGE_BYTES for now, then in zip(self._before, before, strict=True))
        return Swapped(into, out)

    def _pages(self) -> tuple[int, int]:
        try:
            with open(self._path, "rb", buffering=0) as file:
                pages = dict(_SWAPPED.findall(file.read()))
        except OSError:
            return 0, 0
        return int(pages.get(b"in", 0)), int(pages.get(b"out", 0))
