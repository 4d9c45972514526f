"""Starts the tenants of a scenario. A tenant consists of processes that call stand-in libraries. Each tenant
has a cgroup of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from stalltop.demo.build import Built, build
from stalltop.demo.caller import Caller, CallerError
from stalltop.demo.cgroups import Cgroups, container_id, container_path
from stalltop.demo.faults import InjectedFault
from stalltop.demo.latencies import write_table
from stalltop.demo.node import DemoNode, Present
from stalltop.demo.scenario import ProcessPlan, Scenario, TenantPlan, load_scenario
from stalltop.demo.scratch import Scratch
from stalltop.model.errors import StalltopError
from stalltop.model.tenant import Tenant
from stalltop.probes.options import MonitorOptions


@dataclass(slots=True)
class _Running:
    """A tenant that runs, with its processes."""

    plan: TenantPlan
    identity: str
    """Id of the tenant's container; for Slurm, the number of its job."""
    cgroup: Path
    callers: list[Caller] = field(default_factory=list)


class DemoTenants:
    """The running tenants of one scenario. They end when `close` is called, or when this process ends."""

    def __init__(
        self,
        scenario: Scenario | str = "trio",
        *,
        built: Built | None = None,
        below: str = "",
        meeting: Path | None = None,
    ) -> None:
        """``scenario`` is a scenario or the name of one. ``below``: path of the cgroup, below the root of the
        hierarchy, in which the tenants' cgroups are made; '': the root. ``meeting``: an empty file, by which
        ranks meet those of other scenarios. Raises UsageError if no scenario has this name."""
        self.scenario = load_scenario(scenario) if isinstance(scenario, str) else scenario
        self._built = built
        self._below = below
        self._meeting = meeting
        self._running: list[_Running] = []
        """Running tenants in the scenario's order."""
        self._ranks: list[tuple[Caller, ProcessPlan]] = []
        """Processes that have not joined their communicators yet."""
        self._names: dict[str, str] = {}
        self._node: DemoNode | None = None
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
        """Returns the PIDs of all processes, in the order of the scenario."""
        return tuple(caller.pid for tenant in self._running for caller in tenant.callers)

    @property
    def names(self) -> dict[str, str]:
        """Returns the names of tenants by container id; for a Slurm job, by the number of the job. Tenants
        that are pods are left out, because the stand-in kubelet reports their names."""
        return dict(self._names)

    def options(self, options: MonitorOptions | None = None) -> MonitorOptions:
        """Returns ``options``, changed so that a monitor finds the stand-in GPUs and pods of the scenario.
        Call it after `start`; before that, it returns ``options`` unchanged."""
        options = options or MonitorOptions()
        return options if self._node is None else self._node.options(options)

    def start(self) -> None:
        """Starts all tenants. Processes that are ranks of communicators make no calls until `join` is called.

        Raises StalltopError if a tenant cannot be started. Then no tenant is left running.
        """
        with self._or_nothing():
            self._start()

    def join(self) -> None:
        """Lets ranks join their communicators and begin their calls. It is called after the tracer has
        attached its probes, so that the tracer sees how the communicators are made.

        Raises StalltopError if a rank fails. Then no tenant is left running.
        """
        with self._or_nothing():
            ranks, self._ranks = self._ranks, []
            for caller, process in ranks:
                assert process.communicator is not None
                caller.do("join {} {} {}".format(*process.communicator))
            for caller, process in ranks:
                caller.start(process.cycle, threads=process.threads)

    def replaced(self, name: str) -> str:
        """Ends the tenant ``name`` and starts a new one in its place, as a node replaces a pod. The new
        tenant has the same name and devices, but another container and pod. Returns the id of the new
        container. Raises StalltopError if the new tenant cannot be started. Then no tenant is left
        running."""
        with self._or_nothing():
            assert self._cgroups is not None
            number = next(n for n, one in enumerate(self._running) if one.plan.name == name)
            before = self._running[number]
            self._cgroups.remove(before.cgroup)
            for caller in before.callers:
                caller.close()
            self._start_tenant(number, before.plan)
            self._begin(self._running[number])
            if self._node is not None:
                self._node.show(map(_present, self._running))
        return self._running[number].identity

    def inject(self, fault: InjectedFault) -> None:
        """Begins ``fault``: its process repeats the fault's cycle, and the stand-in GPUs have its settings.
        Raises CallerError if the process fails."""
        if fault.cycle:
            self._caller(fault)[0].change(fault.cycle, threads=fault.threads)
        if fault.gpu and self._node is not None:
            self._node.show(map(_present, self._running), fault.gpu)

    def restore(self, fault: InjectedFault) -> None:
        """Ends ``fault``: its process repeats its own cycle, and the stand-in GPUs have their own settings.
        Raises CallerError if the process fails."""
        if fault.cycle:
            caller, process = self._caller(fault)
            caller.change(process.cycle, threads=process.threads)
        if fault.gpu and self._node is not None:
            self._node.show(map(_present, self._running))

    def runs(self, tenant: Tenant) -> bool:
        """Returns whether ``tenant`` is one of these tenants."""
        return any(
            tenant.id.startswith(f"slurm:job_{one.identity}/")
            if one.plan.runtime == "slurm"
            else tenant.container_id == one.identity
            for one in self._running
        )

    def _caller(self, fault: InjectedFault) -> tuple[Caller, ProcessPlan]:
        for running in self._running:
            if running.plan.name == fault.tenant:
                for caller, process in zip(running.callers, running.plan.processes, strict=True):
                    if process.name == fault.process:
                        return caller, process
        raise CallerError(f"no process {fault.process} of {fault.tenant} is running")

    def close(self) -> None:
        """Ends the processes and removes their cgroups, in well under a second. May be called twice."""
        running, self._running = self._running, []
        self._ranks.clear()
        if self._cgroups is not None:
            # This kills the processes of all tenants, even processes that are blocked in a call.
            self._cgroups.close()
            self._cgroups = None
        for tenant in running:
            for caller in tenant.callers:
                caller.close()
        if self._node is not None:
            self._node.close()
            self._node = None
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
            if isinstance(error, (CallerError, OSError)):
                raise StalltopError(f"cannot start the sample tenants: {error}") from error
            raise

    def _start(self) -> None:
        self._built = self._built if self._built is not None else build()
        self._cgroups = Cgroups()
        self._tables = Path(tempfile.mkdtemp(prefix="stalltop-demo-"))
        self._files = Scratch()
        for name, mib in self.scenario.files.items():
            write_file(self._files.path / name, mib)
        for number, tenant in enumerate(self.scenario.tenants):
            self._start_tenant(number, tenant)
        for running in self._running:
            self._begin(running)
        if self.scenario.gpu or any(tenant.pod for tenant in self.scenario.tenants):
            self._node = DemoNode(self.scenario, self._built)
            self._node.begin(map(_present, self._running))

    def _start_tenant(self, number: int, tenant: TenantPlan) -> None:
        """Starts the processes of ``tenant``, which is number ``number`` of the running tenants. Does not
        wait until they work; `_begin` does."""
        assert self._built is not None
        assert self._cgroups is not None
        assert self._files is not None
        assert self._tables is not None
        identity = str(4711 + number) if tenant.runtime == "slurm" else container_id()
        if tenant.pod is None:
            self._names[identity] = tenant.name
        cgroup = self._cgroups.make(f"{self._below}/{container_path(tenant.runtime, identity)}")
        running = _Running(tenant, identity, cgroup)
        self._running[number : number + 1] = [running]
        meeting = self._meeting or self._files.path / "meeting"
        meeting.touch()
        latencies = {
            symbol: replace(latency, path=meeting) if latency.how == "meet" else latency
            for symbol, latency in tenant.latencies.items()
        }
        table = write_table(latencies, self._tables / f"{identity}.latencies")
        for process in tenant.processes:
            caller = Caller(
                self._built,
                cgroup=cgroup,
                table=table,
                name=process.name,
                files=self._files.path,
                variables=tenant.environment,
            )
            running.callers.append(caller)
            if tenant.cpus:
                os.sched_setaffinity(caller.pid, sorted(os.sched_getaffinity(0))[: tenant.cpus])
            if process.communicator is not None:
                self._ranks.append((caller, process))
                caller.tell("load ncclCommInitRank cudaGetDevice")
            else:
                caller.tell(f"start {process.threads} 0 {process.cycle}")

    def _begin(self, running: _Running) -> None:
        """Waits until the processes of the tenant work. They have then loaded the libraries, and read their
        tables of latencies."""
        for caller in running.callers:
            caller.answer()


def _present(running: _Running) -> Present:
    pids = [caller.pid for caller in running.callers]
    return Present(running.identity, running.plan.pod, tuple(zip(pids, running.plan.processes, strict=True)))


def write_file(path: Path, mib: int) -> None:
    """Writes a file of ``mib`` MiB, with data in every block. Blocks without data (as in a sparse file) would
    be read without any access to the disk."""
    piece = os.urandom(1 << 20)
    with path.open("wb") as file:
        for _ in range(mib):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
