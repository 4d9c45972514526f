"""Who a call belongs to: a container, pod, job, unit, session or, where nothing names it, a process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["container", "pod", "job", "unit", "session", "process", "host"]

ENDED_PROCESSES: Final = "process:ended"
"""Id of the tenant that stands for processes that ended before anybody could see whose they were."""
MOST_LABELS: Final = 32
"""Labels of a tenant that are kept."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant of the host. ``id`` is unique on its host and stays the same while the tenant lives."""

    id: str
    """Stable key, such as ``docker:4f1c…`` (full id), ``slurm:job_42/step_0`` or ``cgroup:7731``."""
    name: str
    """What a person reads: the container's name where known, else a short id. Control characters removed."""
    kind: Kind = "container"
    runtime: str = ""
    """docker, containerd, cri-o, podman, kubernetes, slurm, ecs, lxc, systemd, user or empty."""
    container_id: str = ""
    pod: str = ""
    """Pod name where known, else the pod's UID."""
    namespace: str = ""
    cgroup_id: int = 0
    """cgroup v2 id (inode of its directory); 0 where only a cgroup v1 path is known."""
    cgroup_path: str = ""
    """Path below the root of its hierarchy, as in ``/proc/PID/cgroup``."""
    container: str = ""
    """Name of the container within its pod."""
    pod_uid: str = ""
    """A pod that takes another's place may have its name, but never its UID."""
    user: str = ""
    """Whose job or session it is."""
    labels: tuple[tuple[str, str], ...] = ()
    """Of the container or pod: (name, value) by name, ``MOST_LABELS`` at most."""


def is_ended(tenant: str) -> bool:
    """Whether this id, alone or behind a host's name, is that of processes that ended."""
    return tenant.rpartition("/")[2] == ENDED_PROCESSES
