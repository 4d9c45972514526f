"""Reads events of the host from the Linux kernel: block I/O, reclaim, OOM kills, retransmits, forks and
exits, stops.

Runs the programs of ``bpf/host.c``. Each part of the programs needs some members of kernel structs and some
tracepoints. If the Linux kernel lacks a member, the parts that need it are not loaded. If it refuses a
tracepoint, only the programs of this tracepoint do not run. `HostEvents.unknown` lists what is not measured.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.model.errors import TracingError
from stalltop.model.text.clean import clean
from stalltop.probes.host.layout import HOST_ENTRIES, HostLoss
from stalltop.probes.host.parts import BLOCK_CGROUP, MADE_CGROUPS, PARTS, Part
from stalltop.probes.programs.bpf_calls import attach_raw_tracepoint, get, look_at_all, take_all
from stalltop.probes.programs.compiled import RAW_TRACEPOINT
from stalltop.probes.programs.loading import load_prepared, pid_namespace
from stalltop.probes.programs.recipes import Recipe, source_text
from stalltop.probes.programs.task_offsets import KernelTypes, NoBtfError
from stalltop.probes.tracer.attach import close_together

_LOST: Final = "lost"
"""Name of the BPF array that counts what was lost because a map was full, by `HostLoss`."""
_ACTIVE: Final = "active"
"""Name of the LRU map that no program removes elements from."""
_Taken = dict[str, tuple[NDArray[np.void], NDArray[np.void]]]
"""Keys and values of BPF hash maps, by name."""
_EIGHT_BYTES: Final = np.dtype([("all", "V8")])
COUNT_SECONDS: Final = 10.0
"""The elements of that map are counted at most once in this time, s."""
_COMPILER_NICENESS: Final = 10
"""Niceness of the compiler of the BPF programs, so that it takes little CPU time from the workloads of the
host."""


class RawBlockIo(NamedTuple):
    """Block I/O requests of one process or cgroup to one device in one direction, since the previous read."""

    tgid: int
    """Process that submitted the requests; 0 if a kernel thread did, if the submitter is unknown, or if the
    process is outside this PID namespace."""
    cgroup_id: int
    """v2 id of the process's cgroup; for a kernel thread, id of the block controller's cgroup, v1 or v2; 0 if
    there is none."""
    device: int
    """major << 20 | minor of the whole disk."""
    write: bool
    requests: int
    bytes: int
    queued_ns: int
    service_ns: int
    max_ns: int
    idle_ns: int
    """For requests of kernel threads: time in ns from the last submission or completion of such a request for
    the cgroup until the next submission, summed over these requests. 0 for processes."""


class RawUse(NamedTuple):
    """Reclaims, forks, execs and exits of a process since the previous read."""

    tgid: int
    """For reclaims and forks: the process itself. For execs and exits: 0 if the process is not in the root
    cgroup. Otherwise its parent; in a PID namespace other than the initial one, the process itself."""
    cgroup_id: int
    reclaims: int
    reclaim_ns: int
    forks: int
    execs: int
    exits: int


class RawRetransmits(NamedTuple):
    """Retransmitted TCP segments since the previous read."""

    inode: int
    """Inode of the socket; 0 if no process has it any more."""
    family: int
    """IP version: 4 or 6."""
    segments: int


class RawVictim(NamedTuple):
    """A process that the Linux kernel chose to kill for lack of memory."""

    pid: int
    """PID of the process; 0 if it is not known in this PID namespace."""
    name: str
    """Name of the process; '' if the Linux kernel does not report it."""
    cgroup_id: int
    time_ns: int
    """CLOCK_MONOTONIC, ns."""


class RawStop(NamedTuple):
    """A process that another process stopped by a signal, or a cgroup that a process stopped by the freezer
    of cgroup v2."""

    tgid: int
    """The stopped process; 0 for a cgroup."""
    cgroup_id: int
    """The frozen cgroup; 0 for a process."""
    time_ns: int
    """CLOCK_MONOTONIC, ns."""
    by_cgroup_id: int
    by_tgid: int
    """The process that stopped it; 0 if the Linux kernel sent the signal, for example after Ctrl-Z in a
    terminal, or if the process is outside this PID namespace."""
    signal: int
    """Number of the signal; 0 for the freezer."""
    by: str
    """Name of the thread that sent the signal or froze the cgroup."""


class RawHostEvents(NamedTuple):
    """All events since the previous read."""

    block_io: list[RawBlockIo]
    uses: list[RawUse]
    retransmits: list[RawRetransmits]
    victims: list[RawVictim]
    stops: list[RawStop]
    """The last stop of each process and of each cgroup."""
    dropped: int
    """How often an event could not be counted because a map was full."""
    forgotten: int
    """How often the begin of an event was forgotten because a map was full, so that the event was not
    counted, or lacks ``RawBlockIo.idle_ns``."""


NOTHING: Final = RawHostEvents([], [], [], [], [], 0, 0)


class HostEvents:
    """Loads the BPF programs in the background, and reads their counts. Used from one thread."""

    def __init__(self, parts: tuple[Part, ...] = PARTS) -> None:
        self._parts = parts
        self._loader: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._loaded: list[LoadedEvents] = []
        self._unknown: tuple[str, ...] = ()
        self._done = False

    @property
    def unknown(self) -> tuple[str, ...]:
        """Returns the figures that are not measured, each with the reason, in one line each."""
        if self._done:
            return self._unknown
        if self._loader is None:
            return ("events of the host from the Linux kernel: not measured until a process uses CUDA",)
        return tuple(
            f"{part.what}: not measured yet, the BPF programs are being loaded" for part in self._parts
        )

    @property
    def loaded(self) -> bool:
        """Returns whether the attempt to load is over, with or without success."""
        return self._done

    def begin(self) -> None:
        """Starts to load in the background. Further calls do nothing."""
        if self._loader is None:
            self._loader = threading.Thread(target=self._load, name="host events", daemon=True)
            self._loader.start()

    def read(self) -> RawHostEvents:
        """Returns the events since the previous read; none before the programs are loaded. Raises OSError."""
        with self._lock:
            found = _together(loaded.take() for loaded in self._loaded)
            lost = [loaded.lost() for loaded in self._loaded]
        return RawHostEvents(
            [
                RawBlockIo(tgid, cgroup_id, device, bool(write), *io)
                for (cgroup_id, tgid, device, write, _), io in _elements(found, "io_of")
            ],
            [RawUse(tgid, cgroup_id, *use) for (cgroup_id, tgid, _), use in _elements(found, "use_of")],
            [
                RawRetransmits(inode, family, segments)
                for (inode, family, _), (segments,) in _elements(found, "retransmits_of")
            ],
            [
                RawVictim(pid, clean(name), cgroup_id, time_ns)
                for (pid, _), (time_ns, cgroup_id, name) in _elements(found, "victims")
            ],
            [
                RawStop(tgid, cgroup_id, time_ns, by_cgroup_id, by_tgid, number, clean(name))
                for (cgroup_id, tgid, _), (time_ns, by_cgroup_id, by_tgid, number, name) in _elements(
                    found, "stops"
                )
            ],
            sum(dropped for dropped, _ in lost),
            sum(forgotten for _, forgotten in lost),
        )

    def made_cgroups(self) -> dict[int, str]:
        """Returns the paths of the cgroups of v2 that were made since the previous call, by their ids; those
        of longer paths than any container has are left out. Raises OSError."""
        with self._lock:
            found = _together(loaded.take(cgroups=True) for loaded in self._loaded)
        return {
            cgroup_id: os.fsdecode(path) for (cgroup_id,), (path,) in _elements(found, MADE_CGROUPS) if path
        }

    def close(self) -> None:
        """Stops and releases everything. Does not wait for a compiler. May be called twice."""
        with self._lock:
            self._closed = True
            loaded, self._loaded = self._loaded, []
        for programs in loaded:
            programs.close()

    def _load(self) -> None:
        unknown: list[str] = []
        try:
            self._load_parts(unknown)
        except Exception as error:  # After a failure, only the host's events are missing.
            unknown.append(f"events of the host (block I/O, reclaim, OOM kills, stops): {error}")
        self._unknown = tuple(unknown)
        self._done = True

    def _load_parts(self, unknown: list[str]) -> None:
        known, offsets = _known(self._parts, unknown)
        for parts in _attempts(known):
            if self._closed:
                return
            try:
                loaded = LoadedEvents.load(parts, offsets, unknown)
            except TracingError as reason:
                if len(parts) == 1 or reason.remedy:
                    unknown += [f"{part.what}: {reason.reason}" for part in parts]
                if reason.remedy:
                    return  # Loading each part alone would fail for the same reason.
                continue
            if not self._keep(loaded) or len(parts) > 1:
                return

    def _keep(self, loaded: LoadedEvents) -> bool:
        with self._lock:
            if not self._closed:
                self._loaded.append(loaded)
                return True
        loaded.close()
        return False


def _together(parts: Iterable[_Taken]) -> _Taken:
    taken = [*parts]
    found: _Taken = {}
    for name in {name for maps in taken for name in maps}:
        pairs = [maps[name] for maps in taken if name in maps]
        found[name] = (np.concatenate([keys for keys, _ in pairs]), np.concatenate([v for _, v in pairs]))
    return found


def _attempts(parts: list[Part]) -> list[list[Part]]:
    """Returns lists of parts, in the order in which loading them is tried. The first list has all parts
    together. The other lists have one part each; they are needed only if loading all parts together fails."""
    return [parts, *([part] for part in parts if len(parts) > 1)] if parts else []


def _known(parts: tuple[Part, ...], unknown: list[str]) -> tuple[list[Part], dict[str, int]]:
    """Returns the parts whose struct members the Linux kernel has, and the offsets of these members by their
    names in the C source. Adds to ``unknown`` the figures that the other parts would have measured."""
    try:
        types = KernelTypes.of_kernel()
    except NoBtfError as reason:
        without = [part for part in parts if not part.members]
        unknown += [f"{part.what}: {reason}" for part in parts if part.members]
        return without, {}
    known: list[Part] = []
    offsets: dict[str, int] = {}
    for part in parts:
        try:
            offsets |= _offsets(types, part.members)
        except NoBtfError as reason:
            unknown.append(f"{part.what}: {reason}")
        else:
            known.append(part)
    try:
        offsets |= _offsets(types, BLOCK_CGROUP)
    except NoBtfError as reason:
        unknown.append(f"tenants whose data kernel threads write back: {reason}")
    return known, offsets


def _offsets(types: KernelTypes, members: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    return {
        value_name(name, member): offset
        for name, wanted in members.items()
        for member, offset in types.offsets(name, wanted).items()
    }


def value_name(struct: str, member: str) -> str:
    """Returns the name that the C source uses for the offset of a member."""
    return f"{struct}_{member}".upper()


def recipe(parts: Sequence[Part], values: Iterable[str]) -> Recipe:
    """Returns the recipe of the BPF programs of ``parts``. ``values`` names the constants that get their
    values when the programs are loaded."""
    # Linux kernels have the members of a struct in different orders. Sorted names make the recipe, and so the
    # compiled file, the same for all Linux kernels.
    return Recipe(
        source_text("host.c"),
        {name: RAW_TRACEPOINT for part in parts for name in part.programs},
        tuple(f"-D{part.flag}" for part in parts),
        tuple(sorted(values)),
    )


class LoadedEvents:
    """Loaded and attached BPF programs."""

    def __init__(
        self,
        maps: Mapping[str, tuple[int, np.dtype[np.void], np.dtype[np.void]]],
        lost: int,
        active: int,
        links: list[int],
    ) -> None:
        """``lost`` and ``active`` are the descriptors of these maps; ``active`` is -1 if there is none."""
        self._maps = maps
        self._lost = lost
        self._active = active
        self._before = {HostLoss.HOST_DROPPED: 0}
        """What was counted so far. Events that began before the programs ran are in the first count of what
        is forgotten, which is left out."""
        self._evicted = 0
        self._counted_at = -COUNT_SECONDS
        self._links = links

    @classmethod
    def load(cls, parts: list[Part], offsets: Mapping[str, int], unknown: list[str]) -> LoadedEvents:
        """Compiles, loads and attaches ``parts``; adds to ``unknown`` the figures that are not measured.
        Raises TracingError."""
        maps = {name: kinds for part in parts for name, kinds in part.maps.items()}
        values = {**pid_namespace(), **offsets}
        fds, *_ = load_prepared(recipe(parts, values), values, niceness=_COMPILER_NICENESS)
        links: list[int] = []
        try:
            for part in parts:
                links += _attached(part, fds, unknown)
        finally:
            # The descriptors of programs are not needed any more, because a link keeps its program alive, and
            # a program keeps its maps.
            for name in fds.keys() - {*maps, _LOST, _ACTIVE}:
                os.close(fds.pop(name))
        kept = {name: (fds[name], *kinds) for name, kinds in maps.items()}
        return cls(kept, fds[_LOST], fds.get(_ACTIVE, -1), links)

    def take(self, *, cgroups: bool = False) -> _Taken:
        """Returns the keys and values of `MADE_CGROUPS`, or else those of every other BPF hash map, and
        empties the maps. Raises OSError."""
        return {
            name: take_all(fd, key, value)
            for name, (fd, key, value) in self._maps.items()
            if (name == MADE_CGROUPS) == cgroups
        }

    def lost(self) -> tuple[int, int]:
        """Returns how often an event was not counted because a map was full, and how often its begin was
        forgotten, since the previous call. Raises OSError."""
        dropped, forgotten = (self._rise(what) for what in (HostLoss.HOST_DROPPED, HostLoss.HOST_FORGOTTEN))
        return dropped, forgotten + self._newly_evicted()

    def _rise(self, what: HostLoss) -> int:
        now = self._count(what)
        before = self._before.get(what, now)
        self._before[what] = now
        return now - before

    def _count(self, what: HostLoss) -> int:
        return int.from_bytes(get(self._lost, int(what).to_bytes(4, sys.byteorder), 8), sys.byteorder)

    def _newly_evicted(self) -> int:
        """Returns how many elements were evicted from ``active``: added, and not there any more."""
        now = time.monotonic()
        if self._active < 0 or now - self._counted_at < COUNT_SECONDS:
            return 0
        added = self._count(HostLoss.HOST_ACTIVE)
        if added - self._evicted <= HOST_ENTRIES:
            return 0
        self._counted_at = now
        there, _ = look_at_all(self._active, _EIGHT_BYTES, _EIGHT_BYTES)
        before, self._evicted = self._evicted, max(added - len(there), self._evicted)
        return self._evicted - before

    def close(self) -> None:
        """Detaches and unloads the programs."""
        close_together(self._links)
        os.close(self._lost)
        if self._active >= 0:
            os.close(self._active)
        for fd, _, _ in self._maps.values():
            os.close(fd)


def _attached(part: Part, fds: Mapping[str, int], unknown: list[str]) -> list[int]:
    links: list[int] = []
    for program, tracepoints in part.programs.items():
        for tracepoint in tracepoints:
            try:
                links.append(attach_raw_tracepoint(fds[program], tracepoint))
            except OSError as error:
                unknown.append(
                    f"{part.what}: the kernel refused its tracepoint {tracepoint}: {error.strerror}"
                )
    return links


def _elements(found: _Taken, name: str) -> list[tuple[tuple[int, ...], tuple[Any, ...]]]:
    if name not in found:
        return []
    keys, values = found[name]
    return list(zip(keys.tolist(), values.tolist(), strict=True))
