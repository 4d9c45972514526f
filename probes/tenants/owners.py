"""Finds the owners of processes. These may also be processes that make no traced call: neighbours, culprits,
kernel threads."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from stalltop.model.tenant import Tenant
from stalltop.probes.tenants.process_names import ProcessNames
from stalltop.probes.tenants.tenants import ROOT_CGROUP_ID, Tenants

REMEMBERED_LOOKS: Final = 10
"""A process that was not asked for in this many samples is forgotten, because its PID may be used again."""
_PF_KTHREAD: Final = 0x00200000
"""The flag in /proc/PID/stat by which kernel threads are recognized (linux/sched.h)."""


class Owner(NamedTuple):
    """The tenant, PID and name of a process."""

    tenant: str
    """Tenant id; '' for the host itself."""
    pid: int
    process: str


HOST: Final = Owner("", 0, "")
"""The host itself. It owns whatever cannot be attributed to a process or tenant."""


class Owners:
    """Finds owners and remembers them. Used from one thread."""

    def __init__(self, tenants: Tenants, names: ProcessNames) -> None:
        self._tenants = tenants
        self._names = names
        self._looks = 0
        self._asked: dict[int, int] = {}
        """Number of the sample in which a process was last asked for, by PID."""
        self._cgroup: dict[int, int] = {}
        """Id of the v2 cgroup in which a process was last seen, by PID."""
        self._kernel_threads: set[int] = set()
        self.found: dict[str, Tenant] = {}
        """Tenants that were asked for in this sample, by id."""

    def begin(self, traced: Collection[int]) -> None:
        """Begins a new sample, and forgets processes that were not asked for lately.

        For processes in ``traced``, tenant and name are kept here. The tracing code forgets them when the
        process ends.
        """
        self._looks += 1
        self.found = {}
        for pid, look in list(self._asked.items()):
            if self._looks - look > REMEMBERED_LOOKS:
                self.forget(pid)
                if pid not in traced:
                    self._tenants.forget(pid)
                    self._names.forget(pid)

    def of(self, pid: int, cgroup_id: int = 0) -> Owner:
        """Returns the owner of a process. ``cgroup_id`` is the id of its v2 cgroup; 0 means that the last
        known cgroup of the process is used."""
        if pid <= 0:
            return self.of_cgroup(cgroup_id)
        if pid not in self._asked and _is_kernel_thread(pid):
            self._kernel_threads.add(pid)
        self._asked[pid] = self._looks
        if pid in self._kernel_threads:
            return Owner("", pid, self._names.name(pid))
        cgroup_id = cgroup_id or self._cgroup.get(pid, 0)
        self._cgroup[pid] = cgroup_id
        return Owner(self._tenant(pid, cgroup_id), pid, self._names.name(pid))

    def of_cgroup(self, cgroup_id: int) -> Owner:
        """Returns an owner that has only the tenant of a v2 cgroup, and no process."""
        if cgroup_id <= ROOT_CGROUP_ID:
            return HOST
        return Owner(self._tenant(0, cgroup_id), 0, "")

    def known(self, pid: int, cgroup_id: int) -> Owner:
        """Returns the same as `of`, if the process was asked for before. Otherwise returns the tenant of its
        cgroup without reading the process, which may be short-lived."""
        return self.of(pid, cgroup_id) if pid in self._asked else self.of_cgroup(cgroup_id)

    def saw(self, pid: int, cgroup_id: int) -> None:
        """Notes that process ``pid`` is in the v2 cgroup ``cgroup_id``."""
        self._cgroup[pid] = cgroup_id
        self._asked.setdefault(pid, self._looks)

    def forget(self, pid: int) -> None:
        """Forgets a process that has ended and whose last counts were read."""
        self._asked.pop(pid, None)
        self._cgroup.pop(pid, None)
        self._kernel_threads.discard(pid)

    def _tenant(self, pid: int, cgroup_id: int) -> str:
        tenant = self._tenants.find(pid, cgroup_id)
        self.found[tenant.id] = tenant
        return tenant.id


def _is_kernel_thread(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[6]) & _PF_KTHREAD != 0
    except (OSError, IndexError, ValueError):
        return False
