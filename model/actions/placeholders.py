"""Reads from a window what the placeholders of the catalogue stand for. Pure functions.

A cgroup's files are written only if no tool is known to manage the cgroup: such a tool would revert the
change.
"""

from __future__ import annotations

import re
import shlex
from typing import Final, NamedTuple

from stalltop.model.actions.catalogue import PERIOD_US
from stalltop.model.cpu_list import cpus_of, list_of
from stalltop.model.evidence import ProcessUse, TenantUse
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window

MIB: Final = 1 << 20
LEAST_CPUS: Final = 0.01
"""Least CPU limit; most tools refuse less."""
_TOOLS: Final = ("docker", "podman")
"""Container runtimes whose command of the same name changes a running container."""
_CONTAINER_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+")
"""Matches all names of containers that Docker and Podman allow."""
_MOST_OF_NAME: Final = 14
"""Most characters of a container's name that commands use; a container with a longer name is given by the
first 12 digits of its id. So the longest command, which limits writes to a disk, fits in 80 columns."""
_USER_MANAGER: Final = re.compile(r"/user@(\d+)\.service/")
"""Matches cgroups of units and containers that a user's own systemd manages."""
_JOB: Final = re.compile(r"(?:^|/)slurm:job_(\d+)(?:/|$)")
_DNS_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
"""Matches all names of pods, namespaces and containers that Kubernetes allows."""
_UID: Final = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")


class Values(NamedTuple):
    """What the placeholders stand for."""

    known: dict[str, str]
    """Value of each known placeholder, quoted for the shell."""
    assumed: frozenset[str]
    """Placeholders of an undo that are the usual defaults, because the window does not have their present
    values."""


def process_values(window: Window, tenant: str, pid: int) -> Values:
    """Returns the values for one process. Returns none for PID 1, and none for processes without a tenant,
    which are threads of the Linux kernel: no command may change these."""
    if pid <= 1 or not tenant:
        return Values({}, frozenset())
    use = use_of_process(window, pid)
    known = {"pid": str(pid)}
    assumed: set[str] = set()
    cpus = window.system.cpus if window.system is not None else 0
    if use is not None and use.allowed:
        known["allowed"] = use.allowed
    elif cpus:
        known["allowed"] = list_of(range(cpus))
        assumed.add("allowed")
    known["nice"] = str(use.nice) if use is not None else "0"
    if use is None:
        assumed.add("nice")
    return Values(known, frozenset(assumed))


def tenant_values(window: Window, tenant: str) -> Values:
    """Returns the values for a tenant as a whole."""
    found = window.tenants.get(tenant)
    if found is None:
        return Values({}, frozenset())
    use = use_of_tenant(window, tenant)
    known = {**_tool(found), **_unit(found), **_kubernetes(found)}
    if job := _JOB.search(found.id):
        known["job"] = job[1]
    if use is not None:
        known |= _folders(found, use)
    before, assumed = _before(window, found, use)
    return Values({**known, **before}, assumed)


def limit_values(cpus: float) -> dict[str, str]:
    """Returns the values for a limit of this many CPUs, with two significant digits."""
    cpus = float(f"{max(cpus, LEAST_CPUS):.1e}")
    return {
        "limit": f"{cpus:g}",
        "limit_percent": f"{cpus:.0%}",
        "limit_us": str(round(cpus * PERIOD_US)),
    }


def use_of_tenant(window: Window, tenant: str) -> TenantUse | None:
    """Returns what a tenant used; None if that is not known."""
    return next((use for use in window.evidence.tenants if use.tenant == tenant), None)


def use_of_process(window: Window, pid: int) -> ProcessUse | None:
    """Returns what a process used; None if that is not known."""
    return next((use for use in window.evidence.processes if use.pid == pid), None)


def is_above(tenant: Tenant, cgroup: str) -> bool:
    """Returns whether ``cgroup``, which has the present limit, is not the tenant's own but one above it, so
    that changing the tenant's limit would not help."""
    return bool(cgroup) and cgroup.strip("/") != tenant.cgroup_path.strip("/")


def _tool(tenant: Tenant) -> dict[str, str]:
    """Returns the values for the tool that changes a container; an empty dict if no tool is known, or if only
    the user who runs the container can run the tool."""
    if not tenant.container_id or tenant.runtime not in _TOOLS or _USER_MANAGER.search(tenant.cgroup_path):
        return {}
    named = not tenant.pod and len(tenant.name) <= _MOST_OF_NAME and _CONTAINER_NAME.fullmatch(tenant.name)
    whole = tenant.name if named else tenant.container_id[:12]
    found = {"tool": tenant.runtime, "container": shlex.quote(whole)}
    if tenant.runtime == "podman":
        found["podman"] = "podman"
    return found


def _unit(tenant: Tenant) -> dict[str, str]:
    name = tenant.cgroup_path.rpartition("/")[2]
    if tenant.kind != "unit" or not name.endswith((".service", ".scope")):
        return {}
    manager = _USER_MANAGER.search(tenant.cgroup_path)
    found = {
        "systemctl": f"systemctl --user -M {manager[1]}@" if manager else "systemctl",
        "unit": shlex.quote(name),
    }
    if name.endswith(".service"):
        found["service"] = found["unit"]
    return found


def _kubernetes(tenant: Tenant) -> dict[str, str]:
    """Returns namespace, pod and container, and the workload to which the pod belongs if the labels show it
    (Kubernetes' own labels of Deployments, StatefulSets and DaemonSets)."""
    names = (tenant.namespace, tenant.pod)
    if not all(_DNS_NAME.fullmatch(name) for name in names) or _UID.fullmatch(tenant.pod):
        return {}
    found = {"namespace": tenant.namespace, "pod": tenant.pod}
    if _DNS_NAME.fullmatch(tenant.container):
        found["kube_container"] = tenant.container
    labels = dict(tenant.labels)
    hashed = labels.get("pod-template-hash", "")
    owner, dash, _ = tenant.pod.rpartition("-")
    if hashed and f"-{hashed}-" in tenant.pod:
        found["workload"] = f"deployment/{tenant.pod.rpartition(f'-{hashed}-')[0]}"
    elif dash and "statefulset.kubernetes.io/pod-name" in labels:
        found["workload"] = f"statefulset/{owner}"
    elif dash and "controller-revision-hash" in labels and "pod-template-generation" in labels:
        found["workload"] = f"daemonset/{owner}"
    return found


def _folders(tenant: Tenant, use: TenantUse) -> dict[str, str]:
    """Returns the tenant's own cgroup folders, if no tool is known to manage the cgroup."""
    if tenant.runtime or tenant.pod or tenant.cgroup_path in ("", "/"):
        return {}
    found = {}
    parts = (
        ("cpu", use.cpu_folder, use.cpu_version, use.quota_cgroup),
        ("memory", use.memory_folder, use.memory_version, use.memory_cgroup),
    )
    for name, folder, version, cgroup in parts:
        if folder and version in (1, 2) and not is_above(tenant, cgroup):
            found[f"{name}_folder_{version}"] = shlex.quote(folder)
            if version == 2:
                found.setdefault("folder_2", shlex.quote(folder))
    return found


def _before(window: Window, tenant: Tenant, use: TenantUse | None) -> tuple[dict[str, str], frozenset[str]]:
    """Returns the present limits of a tenant for an undo, and which of them are assumed."""
    cpus = window.system.cpus if window.system is not None else 0
    quota = use.cpu_quota if use is not None and not is_above(tenant, use.quota_cgroup) else None
    assumed: set[str] = set()
    if quota is not None:
        known = {
            "limit_before": f"{quota:g}",
            "percent_before": f"{quota:.0%}",
            "us_before_2": str(round(quota * PERIOD_US)),
            "us_before_1": str(round(quota * PERIOD_US)),
        }
    else:
        # Docker and Podman cannot remove a CPU limit, so the limit is set to all CPUs of the host.
        known = {"percent_before": "", "us_before_2": "max", "us_before_1": "-1"}
        if cpus:
            known["limit_before"] = str(cpus)
        if use is None:
            assumed |= set(known)
    cpuset = use.cpuset if use is not None else ""
    every = frozenset(range(cpus))
    if cpuset or every:
        known["cpuset"] = cpuset or list_of(every)
    known["allowed_before"] = cpuset if cpuset and cpus_of(cpuset) != every else ""
    if not cpuset:
        assumed |= {"cpuset", "allowed_before"}
    return known, frozenset(assumed)
