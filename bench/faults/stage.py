"""Where one trial takes place: its tenants, their processes and files, all of which end with it."""

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

from bench.faults.controllers import Limits
from bench.faults.device import StandInDevice
from bench.faults.network import INTO_NEW
from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.demo.cgroups import Cgroups, container_id, container_path
from stalltop.demo.latencies import Latency, write_table
from stalltop.demo.scratch import Scratch
from stalltop.demo.tenants import write_file

FILE_MIB: Final = 192
"""Size of each file of `Files`: more than any trial's memory limit."""
STREAM: Final = "stream"
"""A file with no end, nearly: whoever reads it fills the page cache with what is hardly ever read again."""
_STREAM_BYTES: Final = 1 << 36
"""None of it on the disk: it is all hole."""
_RUNTIMES: Final = ("docker", "podman", "containerd", "cri-o")


class Files:
    """What is made once for many trials: files with real data on a real disk, and a device."""

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
        """Drop a file from the page cache: whoever reads it next is charged for its memory."""
        with (self.folder / name).open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def remember(self, name: str) -> None:
        """Have all of a file in the page cache: whoever reads it next does not wait for the disk."""
        with (self.folder / name).open("rb") as file:
            while file.read(1 << 20):
                pass

    def close(self) -> None:
        """Remove them."""
        self._scratch.close()


@dataclass(frozen=True, slots=True)
class Place:
    """One tenant of a trial."""

    name: str
    """What this trial calls it."""
    identity: str
    """Its container id: what a window knows it by."""
    cgroup: Path
    limits: Limits | None = None
    callers: list[Caller] = field(default_factory=list)


class Stage:
    """One trial's. Closing it ends and removes everything."""

    def __init__(self, built: Built, files: Files, chance: random.Random) -> None:
        self.files = files
        self.device = files.device
        self.chance = chance
        self.notes: dict[str, float | str] = {}
        """The parameters that chance chose, for whoever wants to repeat it."""
        self.places: list[Place] = []
        self._built = built
        self._ends = contextlib.ExitStack()
        self._cgroups = self._ends.enter_context(Cgroups())
        self.folder: Final = Path(tempfile.mkdtemp(prefix="trial-", dir=files.folder))
        """Of this trial: its queues, locks and tables."""
        self._ends.callback(shutil.rmtree, self.folder, ignore_errors=True)
        for name in ("data", "load", STREAM):
            (self.folder / name).symlink_to(files.folder / name)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it. May be called twice."""
        for place in self.places:
            if place.limits is not None:
                place.limits.close()
        self._ends.close()
        for place in self.places:
            for caller in place.callers:
                caller.close()

    def closing(self, close: Callable[[], None]) -> None:
        """Have ``close`` called at the end."""
        self._ends.callback(close)

    def between(self, what: str, low: float, high: float) -> float:
        """A number by chance, noted as ``what``."""
        value = self.chance.uniform(low, high)
        self.notes[what] = round(value, 3)
        return value

    def whole(self, what: str, low: int, high: int) -> int:
        """A whole number by chance, both ends included, noted."""
        value = self.chance.randint(low, high)
        self.notes[what] = value
        return value

    def one_of(self, what: str, choices: Sequence[str]) -> str:
        """One of ``choices`` by chance, noted."""
        value = self.chance.choice(choices)
        self.notes[what] = value
        return value

    def tenant(self, name: str, controllers: tuple[str, ...] = ()) -> Place:
        """A new container, with limits by these controllers if any."""
        identity = container_id()
        path = container_path(self.chance.choice(_RUNTIMES), identity)
        cgroup = self._cgroups.make(path)
        limits = Limits(path, cgroup, controllers) if controllers else None
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
        """A new process of a tenant, going through ``items`` if any."""
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
