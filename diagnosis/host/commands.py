"""Commands that help, as one types them on the host, with the actual names."""

from __future__ import annotations

import shlex
from typing import Final

from diagnosis.facts import Facts

CGROUPS: Final = "/sys/fs/cgroup"
PERIOD_US: Final = 100_000
"""The kernel's own default period of a CPU quota."""


def move_to_cpus(pid: int, cpus: str) -> str:
    """Let all threads of a process run on ``cpus`` only."""
    return f"taskset -acp {cpus} {pid}"


def limit_cpus(cgroup: str, cpus: float) -> str:
    """Give a cgroup a quota of so many CPUs."""
    path = f"{CGROUPS}{_below(cgroup)}/cpu.max"
    return f"echo '{max(round(cpus * PERIOD_US), 1000)} {PERIOD_US}' > {shlex.quote(path)}"


def cgroup_of(facts: Facts, tenant: str) -> str:
    """The path of a tenant's cgroup; empty where it has none of its own."""
    found = facts.window.tenants.get(tenant)
    return found.cgroup_path if found is not None and found.cgroup_path != "/" else ""


def idle_io(pid: int) -> str:
    """Let a process use a disk only when nobody else does."""
    return f"ionice -c3 -p {pid}"


def _below(cgroup: str) -> str:
    return "" if cgroup in ("", "/") else "/" + cgroup.strip("/")
