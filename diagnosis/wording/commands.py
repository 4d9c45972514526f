"""Builds the commands of fixes from the catalogue in `model.actions`, with the actual names and process ids.

The commands change a tenant through the tool that runs it (Docker, Podman, systemd), so that the change
lasts. A command writes to the files of a cgroup only if no known tool manages the cgroup, because such a tool
would revert the change. If neither a tool nor the file is known, the command is ''.
"""

from __future__ import annotations

import shlex
from typing import Final

from stalltop.diagnosis.facts import Facts
from stalltop.model.actions.catalogue import BY_ID, command
from stalltop.model.actions.placeholders import MIB, is_above, limit_values, tenant_values
from stalltop.model.evidence import TenantUse


def move_to_cpus(pid: int, cpus: str) -> str:
    """Returns a command that restricts all threads of a process to ``cpus``."""
    return _on_process("affinity", pid, cpus=cpus)


def lower_priority(pid: int) -> str:
    """Returns a command that lowers the priority of all threads of a process."""
    return _on_process("nice", pid)


def lower_share(facts: Facts, tenant: str) -> str:
    """Returns a command that gives a tenant the least share of CPU time; '' if no command does that."""
    return _on_tenant(facts, tenant, ("container_weight", "unit_weight", "cgroup2_weight"), {})


def idle_io(pid: int) -> str:
    """Returns a command that lets all threads of a process use a disk only while nobody else does."""
    return _on_process("idle_io", pid)


def let_run(pid: int) -> str:
    """Returns a command that lets a stopped process run again."""
    return _on_process("signal_continue", pid, stopped="yes")


def end(pid: int) -> str:
    """Returns a command that asks a process to end."""
    return _on_process("end", pid)


def in_network_of(pid: int, command: str) -> str:
    """Returns ``command`` so that it runs in the network namespace of a process. A container has its own
    interfaces and connections."""
    return f"nsenter -t {pid} -n {command}"


def limit_cpus(facts: Facts, tenant: str, cpus: float, *, now_by: str = "") -> str:
    """Returns a command that limits a tenant to ``cpus`` CPUs; '' if no command does that. ``now_by`` is the
    cgroup that sets the present limit; '' if there is none."""
    ids = ("container_cpus", "unit_cpus", "cgroup2_cpus", "cgroup1_cpus", "pod_cpus")
    return _on_tenant(facts, tenant, ids, limit_values(cpus), now_by)


def needs(command: str) -> str:
    """Returns, as the end of a sentence, what ``command`` needs; '' if it needs nothing special."""
    return "; needs Kubernetes 1.33" if command.startswith("kubectl ") else ""


def limit_memory(facts: Facts, tenant: str, size_bytes: float, *, now_by: str = "") -> str:
    """Returns a command that limits a tenant to ``size_bytes`` of memory; '' if no command does that.
    ``now_by`` is the cgroup that sets the present limit; '' if there is none."""
    mib = max(round(size_bytes / MIB), 1)
    # Memory and swap are limited together: by default, a container may use as much swap as memory.
    given = {"memory_mib": str(mib), "swap_mib": str(2 * mib)}
    ids = ("container_memory", "unit_memory", "cgroup2_memory", "cgroup1_memory")
    return _on_tenant(facts, tenant, ids, given, now_by)


def set_cpus(facts: Facts, tenant: str, cpus: str) -> str:
    """Returns a command that restricts a tenant's cgroup to the CPUs ``cpus``; '' if no command does that."""
    return _on_tenant(facts, tenant, ("container_cpuset", "unit_cpuset"), {"cpus": cpus})


def limit_disk(facts: Facts, tenant: str, device: str, bytes_per_s: float, *, write: bool) -> str:
    """Returns a command that limits how many bytes per second a tenant reads from a block device, or writes
    to it. '' if no command does that."""
    what = "write" if write else "read"
    given = {
        "device_path": shlex.quote(f"/dev/{device}"),
        # Podman's units are powers of 1024, those of systemd are powers of 1000.
        f"{what}_rate_1024": _in_unit(bytes_per_s, 1024, ("kb", "mb")),
        f"{what}_rate_1000": _in_unit(bytes_per_s, 1000, ("K", "M")),
    }
    return _on_tenant(facts, tenant, (f"container_{what}s", f"unit_{what}s"), given)


def _in_unit(bytes_per_s: float, base: int, units: tuple[str, str]) -> str:
    """Returns a rate with two digits in one of ``units``, of ``base`` and of ``base ** 2`` bytes, such as
    ``1400mb``: a command with all digits would be wider than a narrow terminal."""
    power = 2 if bytes_per_s >= base**2 else 1
    return f"{max(int(float(f'{bytes_per_s / base**power:.1e}')), 1)}{units[power - 1]}"


def thaw(facts: Facts, tenant: str) -> str:
    """Returns a command that lets a frozen tenant continue; '' if no command does that."""
    return _on_tenant(facts, tenant, ("container_unpause", "unit_thaw", "cgroup2_thaw"), {"stopped": "yes"})


def _on_process(action: str, pid: int, **given: str) -> str:
    return BY_ID[action].text({"pid": str(pid), **given})


def _on_tenant(
    facts: Facts, tenant: str, ids: tuple[str, ...], given: dict[str, str], now_by: str = ""
) -> str:
    """Returns the first command of the catalogue in ``ids`` that applies to a tenant; '' if none does.
    Returns '' also if the cgroup ``now_by``, which sets the present limit, is above the tenant's own cgroup,
    because raising the tenant's own limit would not help."""
    found = facts.window.tenants.get(tenant)
    if found is None or is_above(found, now_by):
        return ""
    return command(ids, tenant_values(facts.window, tenant).known | given)


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
