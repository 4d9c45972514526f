"""What to type on the host, with the actual names: by the tool that runs the tenant, which keeps to it later.

A cgroup's files are written only where nothing is known to own the cgroup: what owns it would undo that.
"""

from __future__ import annotations

import shlex
from typing import Final

from diagnosis.facts import Facts
from model.tenant import Tenant

PERIOD_US: Final = 100_000
"""The kernel's own default period of a CPU quota."""
MIB: Final = 1 << 20
_UPDATE: Final = {"docker": "docker update", "podman": "podman update"}
"""By the tenant's runtime."""


def move_to_cpus(pid: int, cpus: str) -> str:
    """Let all threads of a process run on ``cpus`` only."""
    return f"taskset -acp {cpus} {pid}"


def idle_io(pid: int) -> str:
    """Let a process use a disk only when nobody else does."""
    return f"ionice -c3 -p {pid}"


def limit_cpus(facts: Facts, tenant: str, cpus: float, *, now_by: str = "") -> str:
    """Let a tenant use so many CPUs, no less than a hundredth of one; empty where no command does that.
    ``now_by`` is the cgroup that has the limit now."""
    cpus = max(cpus, 0.01)
    found = facts.window.tenants.get(tenant)
    if found is None or _above(found, now_by):
        return ""
    if found.runtime in _UPDATE and found.container_id:
        return f"{_UPDATE[found.runtime]} --cpus {cpus:.2f} {_container(found)}"
    if unit := _unit(found):
        return f"systemctl set-property --runtime {unit} CPUQuota={cpus:.0%}"
    if path := _own_cgroup(found):
        return f"echo '{round(cpus * PERIOD_US)} {PERIOD_US}' > {path}/cpu.max"
    return ""


def limit_memory(facts: Facts, tenant: str, size_bytes: float, *, now_by: str = "") -> str:
    """Let a tenant use so much memory; empty where no command does that."""
    mib = max(round(size_bytes / MIB), 1)
    found = facts.window.tenants.get(tenant)
    if found is None or _above(found, now_by):
        return ""
    if found.runtime in _UPDATE and found.container_id:
        return f"{_UPDATE[found.runtime]} --memory {mib}m --memory-swap {mib}m {_container(found)}"
    if unit := _unit(found):
        return f"systemctl set-property --runtime {unit} MemoryMax={mib}M"
    if path := _own_cgroup(found):
        return f"echo {mib}M > {path}/memory.max"
    return ""


def _above(tenant: Tenant, cgroup: str) -> bool:
    """Whether a limit is that of a cgroup above the tenant: changing the tenant's would not help."""
    return bool(cgroup) and cgroup.strip("/") != tenant.cgroup_path.strip("/")


def _container(tenant: Tenant) -> str:
    return shlex.quote(tenant.container_id[:12])


def _unit(tenant: Tenant) -> str:
    """The systemd unit that a tenant is; empty for anything else."""
    name = tenant.cgroup_path.rpartition("/")[2]
    return shlex.quote(name) if tenant.kind == "unit" and name.endswith((".service", ".scope")) else ""


def _own_cgroup(tenant: Tenant) -> str:
    """The folder of a tenant's cgroup where nothing is known to own it, in the tree of cgroup v2."""
    owned = bool(tenant.runtime or tenant.pod)
    if owned or not tenant.cgroup_id or tenant.cgroup_path in ("", "/"):
        return ""
    return shlex.quote(f"/sys/fs/cgroup/{tenant.cgroup_path.strip('/')}")
