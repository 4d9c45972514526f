"""Builds commands that can be run on the host as they are, with the actual names and process ids. They change
a tenant through the tool that runs it (Docker, Podman, systemd), so that the change lasts.

A cgroup's files are written only if no tool is known to manage the cgroup: such a tool would revert the
change. If neither a tool nor the file is known, the command is ''.
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
"""Least CPU limit; most tools refuse less."""
_UPDATE: Final = {"docker": "docker update", "podman": "podman update"}
"""Commands that change a running container, by container runtime."""
_USER_MANAGER: Final = re.compile(r"/user@(\d+)\.service/")
"""Matches cgroups of units and containers that a user's own systemd manages."""


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
    """Returns ``command`` for the network namespace of a process: a container has its own interfaces and
    connections."""
    return f"nsenter -t {pid} -n {command}"


def limit_cpus(facts: Facts, tenant: str, cpus: float, *, now_by: str = "") -> str:
    """Returns a command that limits a tenant to this many CPUs; '' if no command does that. ``now_by`` is the
    cgroup that has the limit now."""
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
    """Returns a command that limits a tenant to this much memory; '' if no command does that. ``now_by`` is
    the cgroup that has the limit now."""
    mib = max(round(size_bytes / MIB), 1)
    found, use = facts.window.tenants.get(tenant), facts.use(tenant)
    if found is None or _above(found, now_by):
        return ""
    # Memory and swap are set together: by default a container gets as much swap as memory.
    if by_tool := _by_tool(found, f"--memory {mib}m --memory-swap {2 * mib}m", f"MemoryMax={mib}M"):
        return by_tool
    if use is None or _above(found, use.memory_cgroup) or not (folder := _own(found, use.memory_folder)):
        return ""
    name = _MEMORY_FILES.get(use.memory_version)
    return f"echo {mib}M > {folder}/{name}" if name else ""


def set_cpus(facts: Facts, tenant: str, cpus: str) -> str:
    """Returns a command that restricts a tenant's cgroup to ``cpus``; '' if no command does that."""
    found = facts.window.tenants.get(tenant)
    return _by_tool(found, f"--cpuset-cpus {cpus}", f"AllowedCPUs={cpus}") if found is not None else ""


def limit_disk(facts: Facts, tenant: str, device: str, bytes_per_s: float, *, write: bool) -> str:
    """Returns a command that limits a tenant's reads or writes of a block device, bytes/s; '' if no command
    does that."""
    found = facts.window.tenants.get(tenant)
    if found is None:
        return ""
    path, rate = shlex.quote(f"/dev/{device}"), max(round(bytes_per_s), 1)
    # Docker sets such limits only when it creates a container.
    option = f"--device-{'write' if write else 'read'}-bps {path}:{rate}" if found.runtime == "podman" else ""
    return _by_tool(found, option, f"'IO{'Write' if write else 'Read'}BandwidthMax=/dev/{device} {rate}'")


def thaw(facts: Facts, tenant: str) -> str:
    """Returns a command that lets a frozen tenant go on; '' if no command does that."""
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
    """Returns, in parentheses, the file and cgroup of a tenant's memory limit as far as they are known; '' if
    nothing is."""
    if use is None or not use.memory_cgroup:
        return ""
    return f" ({_MEMORY_FILES.get(use.memory_version, 'memory limit')} of cgroup {use.memory_cgroup})"


def quota_file(use: TenantUse | None) -> str:
    """Returns, in parentheses, the file and cgroup of a tenant's CPU quota as far as they are known; '' if
    nothing is."""
    if use is None or not use.quota_cgroup:
        return ""
    return f" ({_QUOTA_FILES.get(use.cpu_version, 'CPU quota')} of cgroup {use.quota_cgroup})"


def _above(tenant: Tenant, cgroup: str) -> bool:
    """Returns whether ``cgroup``, which has the present limit, is not the tenant's own but one above it: then
    changing the tenant's limit would not help."""
    return bool(cgroup) and cgroup.strip("/") != tenant.cgroup_path.strip("/")


def _by_tool(tenant: Tenant, options: str, setting: str) -> str:
    """Returns a command for the tool that runs a tenant: for a container with ``options`` (if not ''), for a
    unit with ``setting`` of systemd. Returns '' if no such tool is known."""
    update = _update(tenant)
    if update and options:
        return f"{update} {options} {shlex.quote(tenant.container_id[:12])}"
    unit = _unit(tenant, "set-property --runtime")
    return f"{unit} {setting}" if unit else ""


def _update(tenant: Tenant) -> str:
    """Returns the command that changes a container; '' if none is known, or only the user who runs the
    container can run it."""
    if not tenant.container_id or _USER_MANAGER.search(tenant.cgroup_path):
        return ""
    return _UPDATE.get(tenant.runtime, "")


def _unit(tenant: Tenant, verb: str) -> str:
    """Returns the command by which systemd does ``verb`` to the unit of a tenant; '' for anything else."""
    name = tenant.cgroup_path.rpartition("/")[2]
    if tenant.kind != "unit" or not name.endswith((".service", ".scope")):
        return ""
    manager = _USER_MANAGER.search(tenant.cgroup_path)
    whose = f" --user -M {manager[1]}@" if manager else ""
    return f"systemctl{whose} {verb} {shlex.quote(name)}"


def _own(tenant: Tenant, folder: str) -> str:
    """Returns ``folder``, quoted, if no tool is known to manage that cgroup; '' otherwise."""
    owned = bool(tenant.runtime or tenant.pod) or tenant.cgroup_path in ("", "/")
    return "" if owned else shlex.quote(folder) if folder else ""
