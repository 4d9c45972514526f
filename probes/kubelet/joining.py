"""Joins allocations, pods and tenants by UIDs and container ids, never by names alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from stalltop.model.devices.allocation import Allocation
from stalltop.model.tenant import Tenant
from stalltop.probes.kubelet.pod import Pod, PodContainer
from stalltop.probes.tenants.patterns import SHORT_ID, USERS


@dataclass(frozen=True, slots=True)
class Known:
    """Pods by UID, and their containers by id."""

    pods: Mapping[str, Pod] = field(default_factory=dict)
    containers: Mapping[str, tuple[Pod, PodContainer]] = field(default_factory=dict)


def known(pods: Iterable[Pod]) -> Known:
    """Returns the pods indexed by UID, and their containers by id."""
    by_uid = {pod.uid: pod for pod in pods}
    return Known(by_uid, {one.id: (pod, one) for pod in by_uid.values() for one in pod.containers if one.id})


class Binder:
    """Finds the pod of each allocation. Remembers the devices of each pod, because they never change while
    the pod lives."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str, str], frozenset[str]] = {}
        """By pod UID, container and resource: the devices that were given."""

    def bound(
        self,
        allocations: Collection[Allocation],
        before: Mapping[tuple[str, str], str],
        after: Mapping[tuple[str, str], str],
    ) -> tuple[Allocation, ...]:
        """Returns ``allocations``, each with the UID of its pod if the pod is certain.

        ``before`` and ``after`` are the UIDs of pods by namespace and name, read before and after
        ``allocations`` were read. An allocation gets no UID if the pod was replaced in between, or if the
        allocation may belong to another pod of the same name.
        """
        alive = set(after.values())
        self._given = {key: devices for key, devices in self._given.items() if key[0] in alive}
        times = Counter((one.namespace, one.pod, one.container, one.resource) for one in allocations)
        found = []
        for one in allocations:
            name = one.namespace, one.pod
            uid = after.get(name, "")
            sure = before.get(name) == uid and times[*name, one.container, one.resource] == 1
            if uid and sure and self._fits(uid, one):
                one = replace(one, pod_uid=uid)
            found.append(one)
        return tuple(found)

    def _fits(self, uid: str, one: Allocation) -> bool:
        devices = frozenset(one.devices)
        given = self._given.setdefault((uid, one.container, one.resource), devices)
        # If the kubelet lists none of the devices that the pod was given, the allocation belongs to a later
        # pod of the same name, and this pod is still ending.
        return not given or not devices or bool(given & devices)


def with_pod(tenant: Tenant, found: Known) -> Tenant:
    """Returns ``tenant`` with the data of its pod in ``found``."""
    # A tenant that belongs to a user may have any container id that the user chose, so the id is not trusted.
    if tenant.id.startswith(USERS):
        return tenant
    pod, container = (
        found.containers.get(tenant.container_id, (None, None)) if tenant.container_id else (None, None)
    )
    if pod is None or tenant.pod_uid not in ("", pod.uid):
        pod, container = found.pods.get(tenant.pod_uid), None
    if pod is None:
        return tenant
    own = container.name if container is not None else tenant.container
    inside = f"/{own or tenant.container_id[:SHORT_ID]}" if tenant.kind == "container" else ""
    return replace(
        tenant,
        name=pod.name + inside,
        pod=pod.name,
        namespace=pod.namespace,
        container=own,
        pod_uid=pod.uid,
        labels=pod.labels or tenant.labels,
    )


def is_scheduled(tenant: Tenant, complete: Collection[str]) -> bool:
    """Returns whether all allocations of a tenant are known. They are known for pods whose UIDs are in
    ``complete``, and for tenants that cannot be part of a pod. They are unknown for containers whose pod is
    unknown."""
    if tenant.pod_uid or tenant.pod:
        return tenant.pod_uid in complete
    if not tenant.runtime and not tenant.cgroup_path:
        return False  # The tenant's cgroup is gone. It may have been that of a container.
    return tenant.kind in ("job", "unit", "session") or tenant.runtime in ("docker", "podman", "lxc")


def with_tenants(
    allocations: Iterable[Allocation], tenants: Mapping[str, Tenant], found: Known
) -> tuple[Allocation, ...]:
    """Returns ``allocations``, each with the tenant that runs in its container."""
    inside: dict[tuple[str, str], list[Tenant]] = {}
    for tenant in tenants.values():
        if tenant.pod_uid and tenant.kind == "container":
            inside.setdefault((tenant.pod_uid, tenant.container), []).append(tenant)
    return tuple(
        replace(one, tenant=_tenant(inside.get((one.pod_uid, one.container), []), found))
        if one.pod_uid
        else one
        for one in allocations
    )


def _tenant(candidates: list[Tenant], found: Known) -> str:
    """Returns the id of the only candidate; of several candidates, that of the only one that runs now; '' if
    there is none. If a container restarts, it gets another id, and the ended container is still listed."""
    if len(candidates) > 1:
        candidates = [one for one in candidates if _runs(one.container_id, found)]
    return candidates[0].id if len(candidates) == 1 else ""


def _runs(identity: str, found: Known) -> bool:
    return identity in found.containers and found.containers[identity][1].running
