"""The life of a host, played fast: containers, processes and libraries come and go, and make known numbers of
calls."""

from __future__ import annotations

import heapq
import itertools
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from stalltop.demo.build import Built
from stalltop.demo.caller import Caller, CallerError
from stalltop.demo.cgroups import Cgroups, container_id, container_path

CONTAINERS_A_MINUTE: Final = 100
RESIDENTS: Final = 3
"""Number of containers that live as long as the run. Their libraries are probed all the time."""
_RESIDENT_CYCLE: Final = "cudaLaunchKernel:5:1 cudaMemcpyAsync:1:4096:1 ~200000"
_CYCLES: Final = 20
_CALLS: Final = "cudaLaunchKernel:5:1 cudaMemcpyAsync:2:4096:1 cudaStreamSynchronize:1"
_LOADED_SECONDS: Final = 0.6
"""From the start of a container to its calls, s. Its libraries are probed already."""
_NEW_LIBRARY_EACH: Final = 20
"""Every this many containers, one brings libraries that no other has."""
_NEW_SECONDS: Final = 2.5
"""From the start of a container with libraries of its own to its calls, s: they are found and probed
meanwhile."""
_LONG_EACH: Final = 25
"""Every this many containers, one stays for `_LONG_SECONDS`."""
_LONG_SECONDS: Final = 40.0
_STORM_EACH: Final = 50
"""Every this many containers, one starts `_STORM_PROCESSES` processes, which make calls, one after the
other."""
_STORM_PROCESSES: Final = 100
_STAYS_SECONDS: Final = 0.8


class Schedule:
    """Actions, each at its time. Used from one thread."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Runs ``action`` in ``seconds`` from now."""
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), action))

    def every(self, seconds: float, action: Callable[[], object], first: float | None = None) -> None:
        """Runs ``action`` every ``seconds``, from ``first`` (default: ``seconds``) seconds from now on."""

        def act() -> None:
            self.after(seconds, act)
            action()

        self.after(seconds if first is None else first, act)

    def run(self, until: float) -> None:
        """Runs what is due until the monotonic time ``until``."""
        while time.monotonic() < until:
            at = min(self._due[0][0] if self._due else until, until)
            time.sleep(max(at - time.monotonic(), 0.0))
            while self._due and self._due[0][0] <= time.monotonic():
                heapq.heappop(self._due)[2]()

    def clear(self) -> None:
        """Drops everything that is not due yet."""
        self._due.clear()


class Life:
    """The containers of the host. ``folder`` gets copies of libraries."""

    def __init__(self, built: Built, folder: Path, schedule: Schedule, *, storms: bool = True) -> None:
        """``storms``: some containers start a hundred processes, one after the other."""
        self._built = built
        self._folder = folder
        self._schedule = schedule
        self._storms = storms
        self._cgroups = Cgroups()
        self._residents: list[tuple[Caller, Path]] = []
        self._running: dict[Caller, Callable[[], None]] = {}
        self.made: Counter[str] = Counter()
        """Number of calls of the CUDA runtime that ended containers have made, by the id of the tenant."""
        self.containers = 0
        """Number of containers that were started."""
        self.processes = 0
        """Number of processes that made calls."""
        self.names: dict[str, str] = {}
        """Names of the containers by the id of the tenant."""
        self._tenant_of: dict[Path, str] = {}
        """Id of the tenant by cgroup."""
        self.failures: list[str] = []
        """Why containers failed."""

    def begin(self) -> None:
        """Starts the residents."""
        for number in range(RESIDENTS):
            cgroup = self._cgroup(f"resident-{number}")
            caller = Caller(self._built, cgroup=cgroup, name=f"resident-{number}")
            caller.do("load cudaLaunchKernel")
            self._residents.append((caller, cgroup))

    def go(self) -> None:
        """Lets the residents make calls, and containers come and go."""
        for caller, _ in self._residents:
            caller.do(f"start 1 0 {_RESIDENT_CYCLE}")
        self._schedule.every(60.0 / CONTAINERS_A_MINUTE, self._come, first=0.0)

    def end(self) -> None:
        """Ends all containers, and counts their calls."""
        for leave in [*self._running.values()]:
            leave()
        for caller, cgroup in self._residents:
            caller.stop()
            self._count(caller, cgroup)

    def close(self) -> None:
        """Kills what still runs, and removes the cgroups."""
        for caller in (*self._running, *(caller for caller, _ in self._residents)):
            caller.close()
        self._cgroups.close()

    def _cgroup(self, name: str) -> Path:
        identity = container_id()
        cgroup = self._cgroups.make(container_path("docker", identity))
        self._tenant_of[cgroup] = f"docker:{identity}"
        self.names[f"docker:{identity}"] = name
        return cgroup

    def _count(self, caller: Caller, cgroup: Path) -> None:
        self.processes += 1
        self.made[self._tenant_of[cgroup]] += sum(
            made.calls for symbol, made in caller.report().items() if symbol.startswith("cuda")
        )

    def _come(self) -> None:
        number, self.containers = self.containers, self.containers + 1
        libraries: Path | None = None
        if number % _NEW_LIBRARY_EACH == _NEW_LIBRARY_EACH - 1:
            libraries = Path(shutil.copytree(self._built.folder, self._folder / f"libraries-{number}"))
        name = f"short-{number}"
        cgroup = self._cgroup(name if libraries is None else f"{name} with libraries of its own")
        caller = Caller(self._built, cgroup=cgroup, folder=libraries, name=name)

        def leave() -> None:
            if self._running.pop(caller, None) is not None:
                self._leave(caller, cgroup, libraries)

        def act() -> None:
            if caller in self._running:
                self._guarded(lambda: self._act(caller, number))
                long = number % _LONG_EACH == _LONG_EACH - 1
                self._schedule.after(_LONG_SECONDS if long else _STAYS_SECONDS, leave)

        self._running[caller] = leave
        self._guarded(lambda: caller.tell("load cudaLaunchKernel"))
        self._schedule.after(_LOADED_SECONDS if libraries is None else _NEW_SECONDS, act)

    def _act(self, caller: Caller, number: int) -> None:
        caller.tell(f"burst 1 {_CYCLES} {_CALLS}")
        if self._storms and number % _STORM_EACH == _STORM_EACH - 1:
            caller.do(f"children {_STORM_PROCESSES} 1 {_CALLS}")  # Their calls are in the report, too.
            self.processes += _STORM_PROCESSES

    def _leave(self, caller: Caller, cgroup: Path, libraries: Path | None) -> None:
        self._guarded(lambda: self._count(caller, cgroup))
        caller.close()
        self._cgroups.remove(cgroup)
        if libraries is not None:
            shutil.rmtree(libraries)

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except CallerError as error:
            self.failures.append(str(error))
