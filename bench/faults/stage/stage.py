"""Holds the tenants, processes and files of one trial, and ends and removes all of them with the trial."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.faults.stage.controllers import Limits
from bench.faults.stage.device import StandInDevice
from bench.faults.stage.network import INTO_NEW
from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.demo.cgroups import Cgroups, container_id, container_path
from stalltop.demo.latencies import Latency, write_table
from stalltop.demo.scratch import Scratch
from stalltop.demo.tenants import write_file

FILE_MIB: Final = 192
"""Size of each of the files ``data`` and ``load`` of `Files`: more than any trial's memory limit."""
STREAM: Final = "stream"
"""Name of a very large file. A program that streams through the file fills the page cache with pages that are
hardly ever read again."""
_STREAM_BYTES: Final = 1 << 36
"""Size of the file ``STREAM``. The file is sparse: it has no data and takes no space on the disk."""
_RUNTIMES: Final = ("docker", "podman", "containerd", "cri-o")


class Files:
    """Files with real data on a real disk, and a stand-in GPU. Both are made once and used by many trials."""

    def __init__(self, built: Built) -> None:
        self._scratch = Scratch()
        self.folder: Final = self._scratch.path
        try:
            for name in ("data", "load"):
                write_file(self.folder / name, FILE_MIB)
            with (self.folder / STREAM).open("wb") as file:
                file.truncate(_STREAM_BYTES)
            self.device: Final = StandInDevice(self.folder, built)
        except BaseException:
            self.close()
            raise

    def forget(self, name: str) -> None:
        """Drops the file ``name`` from the page cache, so that the memory of its pages is charged to the
        cgroup that reads the file next."""
        with (self.folder / name).open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def remember(self, name: str) -> None:
        """Reads the whole file ``name`` into the page cache, so that the process that reads the file next
        does not wait for the disk."""
        with (self.folder / name).open("rb") as file:
            while file.read(1 << 20):
                pass

    def close(self) -> None:
        """Removes the files."""
        self._scratch.close()


@dataclass(frozen=True, slots=True)
class Place:
    """One tenant of a trial."""

    name: str
    """Name of the tenant in this trial."""
    identity: str
    """Id of the tenant's container, by which the tenant is recognized in windows."""
    cgroup: Path
    limits: Limits | None = None
    callers: list[Caller] = field(default_factory=list)


class Stage:
    """The tenants, processes and files of one trial. `close` ends and removes all of them."""

    def __init__(
        self,
        built: Built,
        files: Files,
        chance: random.Random,
        containers: str = "",
        strength: float = 0.0,
        below: str = "",
        shared: Limits | None = None,
    ) -> None:
        """``below`` is the path of the cgroup, below the root of each hierarchy, in which the tenants'
        cgroups are made; '': the root. ``shared`` are cgroups with limits that tenants without own limits
        share. ``containers`` determines the ids of the containers. If it is '', the
        ids are random. Otherwise they depend only on ``containers`` and the tenants' names, so that another
        trial can have the same ids. ``chance`` makes all random choices of the trial."""
        self.files = files
        self.strength = strength
        """Share of the victim's time that the fault is meant to take; 0 if the script chooses the
        strength."""
        self.steps: Callable[[], int] | None = None
        """Function that returns the number of steps that the victim has made. Faults of chosen strength set
        it; for others it is None."""
        self.device = files.device
        self.chance = chance
        self.notes: dict[str, float | str] = {}
        """Parameters of the trial that were chosen at random, by name, for the reports."""
        self.places: list[Place] = []
        self._built = built
        self._containers = containers
        self._below = below
        self._shared = shared
        self._ends = contextlib.ExitStack()
        self._cgroups = self._ends.enter_context(Cgroups())
        self.folder: Final = Path(tempfile.mkdtemp(prefix="trial-", dir=files.folder))
        """Folder of this trial, with its queues, locks and tables of latencies."""
        self._ends.callback(shutil.rmtree, self.folder, ignore_errors=True)
        for name in ("data", "load", STREAM):
            (self.folder / name).symlink_to(files.folder / name)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the trial. May be called twice."""
        for place in self.places:
            if place.limits is not None:
                place.limits.close()
        self._ends.close()
        for place in self.places:
            for caller in place.callers:
                caller.close()

    def closing(self, close: Callable[[], None]) -> None:
        """Registers ``close`` to be called when the trial ends."""
        self._ends.callback(close)

    def between(self, what: str, low: float, high: float) -> float:
        """Returns a random number from ``low`` to ``high``, and notes it as ``what`` for the reports."""
        value = self.chance.uniform(low, high)
        self.notes[what] = round(value, 3)
        return value

    def whole(self, what: str, low: int, high: int) -> int:
        """Returns a random whole number from ``low`` to ``high``, both included, and notes it as ``what`` for
        the reports."""
        value = self.chance.randint(low, high)
        self.notes[what] = value
        return value

    def one_of(self, what: str, choices: Sequence[str]) -> str:
        """Returns one of ``choices`` at random, and notes it as ``what`` for the reports."""
        value = self.chance.choice(choices)
        self.notes[what] = value
        return value

    def tenant(self, name: str, controllers: tuple[str, ...] = ()) -> Place:
        """Makes a tenant called ``name``: a cgroup like that of a container. ``controllers`` are the cgroup
        controllers (cpu, memory, blkio) by which its limits can be set."""
        # The number makes ids differ if two faults at once give their tenants the same name.
        seed = f"{self._containers}/{len(self.places)}/{name}" if self._containers else ""
        identity = container_id(seed)
        path = f"{self._below}/{container_path(self.chance.choice(_RUNTIMES), identity)}"
        cgroup = self._cgroups.make(path)
        limits = Limits(path, cgroup, controllers) if controllers else self._shared
        place = Place(name, identity, cgroup, limits)
        self.places.append(place)
        return place

    def process(
        self,
        place: Place,
        name: str,
        items: str = "",
        *,
        threads: int = 1,
        latencies: Mapping[str, Latency] | None = None,
        own_network: bool = False,
    ) -> Caller:
        """Starts a process called ``name`` in the tenant ``place``. If ``items`` is not '', ``threads``
        threads of the process repeat these items of `demo/native/caller/caller.c`. ``latencies`` are the
        durations of stand-in functions. If ``own_network``, the process starts in a network namespace of its
        own."""
        table = None
        if latencies is not None:
            table = write_table(latencies, self.folder / f"table-{len(place.callers)}-{place.identity}")
        caller = Caller(
            self._built,
            cgroup=(place.cgroup, *(place.limits.places if place.limits else ())),
            table=table,
            name=name,
            files=self.folder,
            before=INTO_NEW if own_network else (),
        )
        place.callers.append(caller)
        caller.answer()
        if items:
            caller.start(items, threads=threads)
        return caller
