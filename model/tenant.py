"""Tenants: containers, pods, jobs, units and sessions that calls belong to, and processes outside these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["container", "pod", "job", "unit", "session", "process", "host"]

ENDED_PROCESSES: Final = "process:ended"
"""Id of the one tenant that stands for all processes that ended before stalltop could read their cgroup."""
MOST_LABELS: Final = 32
"""Maximum number of labels of a tenant."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant of the host. ``id`` is unique on its host and stays the same while the tenant lives."""

    id: str
    """Stable key, such as ``docker:4f1c…`` (full id), ``slurm:job_42/step_0`` or ``cgroup:7731``."""
    name: str
    """Name on the screen: the container's name if known, else a short id. Free of control characters."""
    kind: Kind = "container"
    runtime: str = ""
    """docker, containerd, cri-o, podman, kubernetes, slurm, ecs, lxc, systemd, user or ''."""
    container_id: str = ""
    pod: str = ""
    """Name of the pod if known, else its UID."""
    namespace: str = ""
    cgroup_id: int = 0
    """cgroup v2 id (inode number of the cgroup's directory); 0 if only a cgroup v1 path is known."""
    cgroup_path: str = ""
    """Path of the cgroup below the root of the cgroup hierarchy, as in ``/proc/PID/cgroup``."""
    container: str = ""
    """Name of the container within its pod; '' if unknown."""
    pod_uid: str = ""
    """UID of the pod. Unlike its name, it is never reused."""
    user: str = ""
    """Name of the user who owns the job or session; '' if unknown."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels of the container or pod as (name, value), sorted by name, at most ``MOST_LABELS``."""

    @property
    def owner(self) -> str:
        """Returns whom to ask about the tenant: its user, else its namespace; '' if neither is known."""
        if self.user:
            return f"user {self.user}" if self.user.isdigit() else self.user
        return f"namespace {self.namespace}" if self.namespace else ""


def is_ended(tenant: str) -> bool:
    """Returns True for the id ``ENDED_PROCESSES``, with or without a host's name in front."""
    return tenant.rpartition("/")[2] == ENDED_PROCESSES
