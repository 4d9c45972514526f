"""Starts the tenants of a scenario: processes on stand-in libraries, each tenant in a cgroup of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from demo.build import Built, build
from demo.caller import Caller, CallerFailed
from demo.cgroups import Cgroups, container_id, container_path
from demo.latencies import write_table
from demo.scenario import ProcessPlan, Scenario, TenantPlan, load_scenario
from demo.scratch import Scratch
from model.errors import Told


class DemoTenants:
    """The running tenants of one scenario. They end when this is closed, and when this process ends."""

    def __init__(self, scenario: Scenario | str = "trio", *, built: Built | None = None) -> None:
        """``scenario`` by name, or one of one's own. Raises BadUsage where no scenario has this name."""
        self.scenario = load_scenario(scenario) if isinstance(scenario, str) else scenario
        self._built = built
        self._callers: list[Caller] = []
        self._ranks: list[tuple[Caller, ProcessPlan]] = []
        """Processes that have yet to join their communicators."""
        self._names: dict[str, str] = {}
        self._cgroups: Cgroups | None = None
        self._tables: Path | None = None
        self._files: Scratch | None = None

    def __enter__(self) -> DemoTenants:
        self.start()
        self.join()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes, in the scenario's order."""
        return tuple(caller.pid for caller in self._callers)

    @property
    def names(self) -> dict[str, str]:
        """The tenants' names by container id (a Slurm job's: its number)."""
        return dict(self._names)

    def start(self) -> None:
        """Start everything; what is of a communicator waits for `join`.

        Raises Told where that does not work; then nothing is left running.
        """
        with self._or_nothing():
            self._start()

    def join(self) -> None:
        """Let ranks join their communicators, and begin: a tracer that is to know them is there by now.

        Raises Told like `start`.
        """
        with self._or_nothing():
            ranks, self._ranks = self._ranks, []
            for caller, process in ranks:
                assert process.communicator is not None
                caller.do("join {} {} {}".format(*process.communicator))
            for caller, process in ranks:
                caller.start(process.cycle, threads=process.threads)

    def close(self) -> None:
        """End the processes and remove their cgroups, well within a second. May be called twice."""
        callers, self._callers = self._callers, []
        self._ranks.clear()
        if self._cgroups is not None:
            # Kills them all at once, whatever they are doing.
            self._cgroups.close()
            self._cgroups = None
        for caller in callers:
            caller.close()
        if self._tables is not None:
            shutil.rmtree(self._tables, ignore_errors=True)
            self._tables = None
        if self._files is not None:
            self._files.close()
            self._files = None
        self._names.clear()

    @contextlib.contextmanager
    def _or_nothing(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.close()
            if isinstance(error, (CallerFailed, OSError)):
                raise Told(f"cannot start the sample tenants: {error}") from error
            raise

    def _start(self) -> None:
        built = self._built if self._built is not None else build()
        self._cgroups = Cgroups()
        self._tables = Path(tempfile.mkdtemp(prefix="stalltop-demo-"))
        self._files = Scratch()
        for name, mib in self.scenario.files.items():
            write_file(self._files.path / name, mib)
        for number, tenant in enumerate(self.scenario.tenants):
            self._start_tenant(built, self._cgroups, self._tables, self._files.path, number, tenant)
        for caller in self._callers:
            caller.answer()
        # The libraries are loaded, and a table is read once.
        with contextlib.suppress(OSError):
            shutil.rmtree(self._tables)

    def _start_tenant(
        self,
        built: Built,
        cgroups: Cgroups,
        tables: Path,
        files: Path,
        number: int,
        tenant: TenantPlan,
    ) -> None:
        identity = str(4711 + number) if tenant.runtime == "slurm" else container_id()
        self._names[identity] = tenant.name
        cgroup = cgroups.make(container_path(tenant.runtime, identity))
        meeting = files / "meeting"
        meeting.touch()
        latencies = {
            symbol: replace(latency, path=meeting) if latency.how == "meet" else latency
            for symbol, latency in tenant.latencies.items()
        }
        table = write_table(latencies, tables / f"{number}.latencies")
        for process in tenant.processes:
            caller = Caller(built, cgroup=cgroup, table=table, name=process.name, files=files)
            self._callers.append(caller)
            if tenant.cpus:
                os.sched_setaffinity(caller.pid, sorted(os.sched_getaffinity(0))[: tenant.cpus])
            if process.communicator is not None:
                self._ranks.append((caller, process))
                caller.tell("load ncclCommInitRank cudaGetDevice")
            else:
                caller.tell(f"start {process.threads} 0 {process.cycle}")


def write_file(path: Path, mib: int) -> None:
    """A file of ``mib`` MiB that is on its disk, in full: what was never written is never read from there."""
    piece = os.urandom(1 << 20)
    with path.open("wb") as file:
        for _ in range(mib):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
