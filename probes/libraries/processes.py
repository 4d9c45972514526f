"""Finds which processes have to be read: those that have mapped a library or a program since the last
time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from stalltop.probes.libraries.mmap_watch import Changes, Mapped, MmapWatch
from stalltop.probes.process_maps import library_layers, pids
from stalltop.probes.tenants.cgroups import membership

LIST_SECONDS: Final = 1.0
"""Seconds between two lists of all processes. Only a list shows forked processes: a child has its parent's
libraries and does not map them itself."""


@dataclass(slots=True)
class ProcessesToRead:
    """The processes to read."""

    libraries: set[int] = field(default_factory=set)
    """Processes whose libraries may have changed."""
    programs: set[int] = field(default_factory=set)
    """Processes that may run another program."""
    gone: set[int] = field(default_factory=set)
    """Processes that have ended."""
    mapped: list[Mapped] = field(default_factory=list)
    """Mappings of libraries that were made, in no particular order."""
    unreported: bool = False
    """Whether the Linux kernel did not report some mappings. Who made them may have ended since."""
    remapped: set[int] | None = field(default_factory=set)
    """Processes that have mapped code; None if any process may have."""


class Processes:
    """Follows the processes of this host.

    If the Linux kernel reports mappings, `to_read` returns only processes that mapped something and, once a
    second, new processes. If it does not (``watching`` is False), `to_read` returns every process, once a
    second.
    """

    def __init__(self, watch: Callable[[], MmapWatch] | None = MmapWatch, within: str = "") -> None:
        """``within``: path of a cgroup, below the root of the v2 hierarchy; processes that are neither in it
        nor in a cgroup below it are never returned. '': every process."""
        self._watch: MmapWatch | None = None
        self._within = within
        self._listed: set[int] = set()
        self._listed_at = float("-inf")
        self._lost = False
        self._named: set[int] = set()
        """Processes that were returned since the last list of all processes. They may end before they are in
        a list."""
        if watch is not None:
            with contextlib.suppress(OSError):
                self._watch = watch()

    @property
    def watching(self) -> bool:
        """Returns whether the Linux kernel reports mappings."""
        return self._watch is not None

    @property
    def due(self) -> bool:
        """Returns whether `to_read` may return something: a process has mapped something, or all processes
        have to be listed."""
        watch = self._watch
        if watch is not None and watch.changed:
            return True
        return time.monotonic() - self._listed_at >= LIST_SECONDS

    def to_read(self) -> ProcessesToRead:
        """Returns what changed since the previous call. The first call returns every process, and no
        mappings, because they were made before."""
        to_read = ProcessesToRead()
        changes = self._watch.read() if self._watch is not None else Changes()
        for mapped in changes.mapped:
            name = mapped.name.rpartition(b"/")[2]
            if library_layers(name):
                to_read.libraries.add(mapped.pid)
                to_read.mapped.append(mapped)
            elif name and b".so" not in name:
                to_read.programs.add(mapped.pid)
        if self._watch is None or changes.lost:
            to_read.remapped = None
        else:
            to_read.remapped = {mapped.pid for mapped in changes.mapped}
        self._named |= to_read.libraries | to_read.programs
        now = time.monotonic()
        self._lost |= changes.lost
        if self._listed:
            to_read.unreported = changes.lost
        else:
            to_read.mapped.clear()
        if now - self._listed_at >= LIST_SECONDS:
            self._listed_at = now
            present = pids()
            new = present if self._lost or self._watch is None else present - self._listed
            self._lost = False
            to_read.libraries |= new
            to_read.programs |= new
            to_read.gone = (self._listed | self._named) - present
            self._listed = present
            self._named = set()
        if self._within:
            named = to_read.libraries | to_read.programs
            inside = {pid for pid in named if is_within(_cgroup(pid), self._within)}
            to_read.libraries &= inside
            to_read.programs &= inside
            to_read.mapped = [mapped for mapped in to_read.mapped if mapped.pid in inside]
        return to_read

    def close(self) -> None:
        """Stops watching. May be called twice."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()


def is_within(path: str, cgroup: str) -> bool:
    """Returns whether the cgroup ``path`` is ``cgroup`` or below it."""
    return path == cgroup or path.startswith(f"{cgroup}/")


def _cgroup(pid: int) -> str:
    member = membership(pid)
    return "" if member is None else member.unified
