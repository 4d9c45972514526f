"""Builds shell commands that can be run on the host as they are, with the actual names and process ids.

The commands change a tenant through the tool that runs it (Docker, Podman, systemd), so that the change
lasts. A command writes to the files of a cgroup only if no known tool manages the cgroup, because such a tool
would revert the change. If neither a tool nor the file is known, the command is ''.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from stalltop.diagnosis.facts import Facts
from stalltop.model.evidence import TenantUse
from stalltop.model.tenant import Tenant

PERIOD_US: Final = 100_000
"""The Linux kernel's default period of a CPU quota, us."""
MIB: Final = 1 << 20
LEAST_CPUS: Final = 0.01
"""Least CPU limit that a command sets. Most tools refuse less."""
_UPDATE: Final = {"docker": "docker update", "podman": "podman update"}
"""By container runtime: the command that changes a running container."""
_USER_MANAGER: Final = re.compile(r"/user@(\d+)\.service/")
"""Matches the paths of cgroups that a user's own systemd manages."""


def move_to_cpus(pid: int, cpus: str) -> str:
    """Returns a command that restricts all threads of a process to ``cpus``."""
    return f"taskset -acp {cpus} {pid}"


def lower_priority(pid: int) -> str:
    """Returns a command that lowers the priority of all threads of a process."""
    return f"renice -n 19 -p $(ls /proc/{pid}/task)"


def idle_io(pid: int) -> str:
    """Returns a command that lets all threads of a process use a disk only while nobody else does."""
    return f"ionice -c3 -p $(ls /proc/{pid}/task)"


def in_network_of(pid: int, command: str) -> str:
    """Returns ``command`` so that it runs in the network namespace of a process. A container has its own
    interfaces and connections."""
    return f"nsenter -t {pid} -n {command}"


def limit_cpus(facts: Facts, tenant: str, cpus: float, *, now_by: str = "") -> str:
    """Returns a command that limits a tenant to ``cpus`` CPUs; '' if no command does that. ``now_by`` is the
    cgroup that sets the present limit; '' if there is none."""
    cpus = max(cpus, LEAST_CPUS)
    found, use = facts.window.tenants.get(tenant), facts.use(tenant)
    if found is None or _above(found, now_by):
        return ""
    if by_tool := _by_tool(found, f"--cpus {cpus:.2f}", f"CPUQuota={cpus:.0%}"):
        return by_tool
    if use is None or _above(found, use.quota_cgroup) or not (folder := _own(found, use.cpu_folder)):
        return ""
    quota_us = round(cpus * PERIOD_US)
    if use.cpu_version == 2:
        return f"echo '{quota_us} {PERIOD_US}' > {folder}/cpu.max"
    if use.cpu_version == 1:
        period = f"echo {PERIOD_US} > {folder}/cpu.cfs_period_us"
        return f"{period} && echo {quota_us} > {folder}/cpu.cfs_quota_us"
    return ""


def limit_memory(facts: Facts, tenant: str, size_bytes: float, *, now_by: str = "") -> str:
    """Returns a command that limits a tenant to ``size_bytes`` of memory; '' if no command does that.
    ``now_by`` is the cgroup that sets the present limit; '' if there is none."""
    mib = max(round(size_bytes / MIB), 1)
    found, use = facts.window.tenants.get(tenant), facts.use(tenant)
    if found is None or _above(found, now_by):
        return ""
    # Memory and swap are limited together: by default, a container may use as much swap as memory.
    if by_tool := _by_tool(found, f"--memory {mib}m --memory-swap {2 * mib}m", f"MemoryMax={mib}M"):
        return by_tool
    if use is None or _above(found, use.memory_cgroup) or not (folder := _own(found, use.memory_folder)):
        return ""
    name = _MEMORY_FILES.get(use.memory_version)
    return f"echo {mib}M > {folder}/{name}" if name else ""


def set_cpus(facts: Facts, tenant: str, cpus: str) -> str:
    """Returns a command that restricts a tenant's cgroup to the CPUs ``cpus``; '' if no command does that."""
    found = facts.window.tenants.get(tenant)
    return _by_tool(found, f"--cpuset-cpus {cpus}", f"AllowedCPUs={cpus}") if found is not None else ""


def limit_disk(facts: Facts, tenant: str, device: str, bytes_per_s: float, *, write: bool) -> str:
    """Returns a command that limits how many bytes per second a tenant reads from a block device, or writes
    to it. '' if no command does that."""
    found = facts.window.tenants.get(tenant)
    if found is None:
        return ""
    path, rate = shlex.quote(f"/dev/{device}"), max(round(bytes_per_s), 1)
    # Docker can set such limits only when it creates a container.
    option = f"--device-{'write' if write else 'read'}-bps {path}:{rate}" if found.runtime == "podman" else ""
    return _by_tool(found, option, f"'IO{'Write' if write else 'Read'}BandwidthMax=/dev/{device} {rate}'")


def thaw(facts: Facts, tenant: str) -> str:
    """Returns a command that lets a frozen tenant continue; '' if no command does that."""
    found, use = facts.window.tenants.get(tenant), facts.use(tenant)
    if found is None:
        return ""
    if _update(found):
        return f"{found.runtime} unpause {shlex.quote(found.container_id[:12])}"
    if unit := _unit(found, "thaw"):
        return unit
    folders = ((use.cpu_folder, use.cpu_version), (use.memory_folder, use.memory_version)) if use else ()
    unified = next((folder for folder, version in folders if version == 2), "")
    folder = _own(found, unified)
    return f"echo 0 > {folder}/cgroup.freeze" if folder else ""


_MEMORY_FILES: Final = {1: "memory.limit_in_bytes", 2: "memory.max"}
_QUOTA_FILES: Final = {1: "cpu.cfs_quota_us", 2: "cpu.max"}


def memory_file(use: TenantUse | None) -> str:
    """Returns the file and the cgroup that set a tenant's memory limit, in parentheses; '' if they are not
    known."""
    if use is None or not use.memory_cgroup:
        return ""
    return f" ({_MEMORY_FILES.get(use.memory_version, 'memory limit')} of cgroup {use.memory_cgroup})"


def quota_file(use: TenantUse | None) -> str:
    """Returns the file and the cgroup that set a tenant's CPU quota, in parentheses; '' if they are not
    known."""
    if use is None or not use.quota_cgroup:
        return ""
    return f" ({_QUOTA_FILES.get(use.cpu_version, 'CPU quota')} of cgroup {use.quota_cgroup})"


def _above(tenant: Tenant, cgroup: str) -> bool:
    """Returns whether ``cgroup``, which sets the present limit, lies above the tenant's own cgroup. Then it
    would not help to raise the tenant's own limit."""
    return bool(cgroup) and cgroup.strip("/") != tenant.cgroup_path.strip("/")


def _by_tool(tenant: Tenant, options: str, setting: str) -> str:
    """Returns a command for the tool that runs a tenant. For a container the command has ``options`` (if not
    ''), for a unit of systemd it has ``setting``. Returns '' if no such tool is known."""
    update = _update(tenant)
    if update and options:
        return f"{update} {options} {shlex.quote(tenant.container_id[:12])}"
    unit = _unit(tenant, "set-property --runtime")
    return f"{unit} {setting}" if unit else ""


def _update(tenant: Tenant) -> str:
    """Returns the command that changes the container of a tenant, such as ``docker update``. Returns '' if
    none is known, or if only the user who runs the container could run it."""
    if not tenant.container_id or _USER_MANAGER.search(tenant.cgroup_path):
        return ""
    return _UPDATE.get(tenant.runtime, "")


def _unit(tenant: Tenant, verb: str) -> str:
    """Returns the ``systemctl`` command that applies ``verb`` to the unit of a tenant; '' if the tenant is no
    unit."""
    name = tenant.cgroup_path.rpartition("/")[2]
    if tenant.kind != "unit" or not name.endswith((".service", ".scope")):
        return ""
    manager = _USER_MANAGER.search(tenant.cgroup_path)
    whose = f" --user -M {manager[1]}@" if manager else ""
    return f"systemctl{whose} {verb} {shlex.quote(name)}"


def _own(tenant: Tenant, folder: str) -> str:
    """Returns ``folder``, quoted for a shell, if no known tool manages the tenant's cgroup; else ''."""
    owned = bool(tenant.runtime or tenant.pod) or tenant.cgroup_path in ("", "/")
    return "" if owned else shlex.quote(folder) if folder else ""
