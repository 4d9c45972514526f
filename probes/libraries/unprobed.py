"""Finds the processes that could make calls before their libraries were probed. Nothing counts such calls.

A process can make calls once it has mapped both a library and CUDA's driver. The Linux kernel reports when
it did that. A process that ends before it is read never gets probes of its own, but its libraries may have
been probed for others.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from stalltop.model.text.clean import clean
from stalltop.probes.libraries.mmap_watch import Mapped
from stalltop.probes.libraries.probed_file import ProbedFile
from stalltop.probes.operations import DRIVER
from stalltop.probes.process_maps import Mapping as MappedFile
from stalltop.probes.process_maps import library_layers
from stalltop.probes.tenants.cgroups import cgroup_id_of

MOST_PROCESSES: Final = 4096
"""Maximum number of processes whose mappings are remembered."""
_MOST_LIBRARIES: Final = 64
"""Maximum number of libraries of a process that are remembered."""
_MOST_PLACES: Final = 4096
"""Maximum number of files that are recognized in reports of the Linux kernel."""
_MOST_FOUND: Final = 256
"""Maximum number of processes that are named between two calls of `Unprobed.take`."""

_Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class UnprobedProcess:
    """A process that could make calls before one of its libraries was probed."""

    pid: int
    cgroup_id: int
    """Its cgroup when it mapped its libraries; 0 if that is not known."""
    path: str
    """The library that was unprobed for longest."""
    seconds: float
    """How long the process could make calls that were not counted, s; 0 if ``ended``."""
    ended: bool
    """Whether the process ended before the library was probed."""


@dataclass(frozen=True, slots=True)
class UnprobedProcesses:
    """The processes of some time."""

    count: int = 0
    named: tuple[UnprobedProcess, ...] = ()
    """Some of them."""
    unreported: bool = False
    """Whether there may be more, because the Linux kernel did not report all mappings."""


@dataclass(slots=True)
class _NewMappings:
    """What a process has mapped since it was read last."""

    cgroup_id: int = 0
    libraries: dict[bytes, Mapped] = field(default_factory=dict)
    """By base name. A process seldom maps two libraries of one name."""


class Unprobed:
    """Follows the mappings of libraries. Used from one thread at a time; `take` from any."""

    def __init__(self, cgroup_of: Callable[[int], int] = cgroup_id_of) -> None:
        """``cgroup_of`` returns the cgroup id of a process, or 0."""
        self._cgroup_of = cgroup_of
        self._processes: dict[int, _NewMappings] = {}
        self._places: dict[_Place, ProbedFile | None] = {}
        """Files as the Linux kernel reports them; None for files with nothing to probe."""
        self._lock = threading.Lock()
        """Protects what `take` returns."""
        self._count = 0
        self._named: list[UnprobedProcess] = []
        self._unreported = False

    def mapped(self, mappings: Iterable[Mapped], files: Iterable[ProbedFile], *, unreported: bool) -> None:
        """Notes new mappings of libraries. ``files`` are probed, or have a problem."""
        if unreported:
            self._unreported = True
        known = [*files]
        for one in sorted(mappings, key=lambda one: one.time_ns):
            process = self._processes.get(one.pid)
            if process is None:
                if len(self._processes) >= MOST_PROCESSES:
                    self._unreported = True
                    continue
                process = self._processes[one.pid] = _NewMappings()
            if len(process.libraries) < _MOST_LIBRARIES:
                process.libraries.setdefault(_base(one), one)
            # The cgroup of a process is unknown once it has ended, so it is read now if it may be needed.
            if not process.cgroup_id and self._unprobed_ns(one, one.time_ns, known) != 0:
                process.cgroup_id = self._cgroup_of(one.pid)

    def examined(self, pid: int, files: Mapping[MappedFile, ProbedFile | None]) -> None:
        """Notes that the files of a process were read, and probed if they hold traced functions. ``files``
        has None for a file with nothing to probe."""
        process = self._processes.get(pid)
        if process is None:
            return
        made = {mapping: self._recognize(process, mapping, file) for mapping, file in files.items()}
        drivers = [at for mapping, at in made.items() if DRIVER in mapping.layers]
        if not drivers:
            return  # It cannot make calls yet.
        del self._processes[pid]
        worst = max(
            (
                (file.probed_ns - max(made[mapping], *drivers), file.path)
                for mapping, file in files.items()
                if file is not None and file.probed and max(made[mapping], *drivers)
            ),
            default=(0, ""),
        )
        if worst[0] > 0:
            self._add(UnprobedProcess(pid, process.cgroup_id, worst[1], worst[0] / 1e9, ended=False))

    def gone(self, pid: int, files: Iterable[ProbedFile], *, had_driver: bool) -> None:
        """Notes that a process has ended. ``had_driver``: whether it used CUDA's driver when it was read
        last."""
        process = self._processes.pop(pid, None)
        if process is None:
            return
        drivers = [one.time_ns for one in process.libraries.values() if DRIVER in library_layers(_base(one))]
        if not drivers and not had_driver:
            return
        known = [*files]
        worst: UnprobedProcess | None = None
        for one in process.libraries.values():
            unprobed_ns = self._unprobed_ns(one, max(one.time_ns, *drivers, 0), known)
            if unprobed_ns != 0:
                path = clean(os.fsdecode(one.name))
                seconds = (unprobed_ns or 0) / 1e9
                found = UnprobedProcess(pid, process.cgroup_id, path, seconds, ended=unprobed_ns is None)
                if worst is None or (found.ended, found.seconds) > (worst.ended, worst.seconds):
                    worst = found
        if worst is not None:
            self._add(worst)

    def dropped(self, file: ProbedFile) -> None:
        """Notes that the probes of ``file`` are removed. The processes that use it go on unprobed."""
        self._places = {place: other for place, other in self._places.items() if other is not file}
        name = os.fsencode(file.path.removesuffix(" (deleted)"))
        for pid in file.users:
            process = self._processes.setdefault(pid, _NewMappings(self._cgroup_of(pid)))
            process.libraries[name.rpartition(b"/")[2]] = Mapped(pid, name, time.monotonic_ns())

    def take(self) -> UnprobedProcesses:
        """Returns the processes that were found since the previous call."""
        with self._lock:
            found = UnprobedProcesses(self._count, tuple(self._named), self._unreported)
            self._count, self._named, self._unreported = 0, [], False
            return found

    def _add(self, found: UnprobedProcess) -> None:
        with self._lock:
            self._count += 1
            if len(self._named) < _MOST_FOUND:
                self._named.append(found)

    def _recognize(self, process: _NewMappings, mapping: MappedFile, file: ProbedFile | None) -> int:
        """Remembers how the Linux kernel reports the file of ``mapping``. Returns when it was mapped,
        monotonic ns; 0 if that was before the process was read last."""
        one = process.libraries.get(os.fsencode(mapping.path).rpartition(b"/")[2])
        if one is None:
            return 0
        if one.inode:
            self._places[_place(one)] = file
            while len(self._places) > _MOST_PLACES:
                del self._places[next(iter(self._places))]
        return one.time_ns

    def _unprobed_ns(self, one: Mapped, since_ns: int, files: list[ProbedFile]) -> int | None:
        """Returns for how long after ``since_ns`` the library was not probed, ns; None if it is not known to
        be probed at all."""
        if _place(one) in self._places:
            file = self._places[_place(one)]
            if file is None:
                return 0
        else:
            file = self._found(one, files)
        if file is None:
            return None
        if not file.probed:
            return 0 if file.problem is not None else None
        return max(file.probed_ns - since_ns, 0)

    def _found(self, one: Mapped, files: list[ProbedFile]) -> ProbedFile | None:
        """Returns the file if it was in use before the Linux kernel could report that. In overlayfs, its
        device and inode numbers may differ from those that are reported, so its path is compared, too."""
        reported = set(self._places.values())
        for file in files:
            if (file.device, file.inode) == (one.device, one.inode):
                return file
            if file not in reported and os.fsencode(file.path) == one.name:
                return file
        return None


def _place(one: Mapped) -> _Place:
    return one.device, one.inode, one.generation


def _base(one: Mapped) -> bytes:
    return one.name.rpartition(b"/")[2]
