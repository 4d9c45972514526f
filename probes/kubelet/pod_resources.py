"""Reads which pods of this node were given which GPUs, from the kubelet's PodResources service, version 1.

The service identifies pods by namespace and name, not by UID, and gives no container ids. The numbers of
fields are those of k8s.io/kubelet/pkg/apis/podresources/v1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stalltop.model.devices.allocation import Allocation
from stalltop.probes.kubelet.call import KubeletCallError, call
from stalltop.probes.kubelet.folder import SOCKET, kubelet_folder
from stalltop.probes.kubelet.pod import object_name
from stalltop.probes.kubelet.protobuf import messages, text, texts
from stalltop.probes.tenants.unix_socket import NOT_THERE, why_no_socket

LIST: Final = "/v1.PodResourcesLister/List"
ALLOCATABLE: Final = "/v1.PodResourcesLister/GetAllocatableResources"
SECONDS: Final = 2.0
"""Time limit for an answer, s."""
MOST_BYTES: Final = 16 << 20
"""Maximum size of an answer, bytes: the kubelet's own limit."""
MOST_ALLOCATIONS: Final = 4_096
"""Maximum number of allocations; a node has at most 250 pods with 16 devices."""
_MOST_DEVICES: Final = 256


@dataclass(frozen=True, slots=True)
class PodResources:
    """The kubelet's answer: which devices it allocated to which containers."""

    allocations: tuple[Allocation, ...] = ()
    pods: frozenset[tuple[str, str]] = frozenset()
    """Namespace and name of every pod that the kubelet listed, even if it has no devices. All devices of
    these pods are in ``allocations``. Empty if there were more than ``MOST_ALLOCATIONS``."""
    allocatable: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Every GPU resource with its devices, allocated or not; empty if unknown or not asked for."""
    unavailable: str = ""
    """Why there is no answer, one line; '' if there is one."""


def read(root: Path = Path("/"), *, allocatable: bool = True) -> PodResources:
    """Reads allocations and, unless ``allocatable`` is False, all GPU resources, from the kubelet whose files
    are below ``root``. Never raises; takes at most ``2 * SECONDS``."""
    path = kubelet_folder(root) / SOCKET
    if why := why_no_socket(path):
        none = "no socket of a kubelet on this host"
        return PodResources(unavailable=none if why == NOT_THERE else f"{path}: {why}")
    try:
        answer = call(path, LIST, seconds=SECONDS, most_bytes=MOST_BYTES)
        allocations = tuple(_allocations(answer))
        pods = _pods(answer) if len(allocations) <= MOST_ALLOCATIONS else frozenset()
        allocations = allocations[:MOST_ALLOCATIONS]
    except (KubeletCallError, ValueError) as error:
        return PodResources(unavailable=f"the kubelet's PodResources: {error}")
    if not allocatable:
        return PodResources(allocations, pods)
    try:
        answer = call(path, ALLOCATABLE, seconds=SECONDS, most_bytes=MOST_BYTES)
        return PodResources(allocations, pods, tuple(_devices(answer, 1)))
    # The method does not exist before Kubernetes 1.21, or is switched off.
    except (KubeletCallError, ValueError):
        return PodResources(allocations, pods)


def _pods(answer: bytes) -> frozenset[tuple[str, str]]:
    return frozenset((object_name(text(pod, 2)), object_name(text(pod, 1))) for pod in messages(answer, 1))


def _allocations(answer: bytes) -> Iterator[Allocation]:
    for pod in messages(answer, 1):
        name, namespace = object_name(text(pod, 1)), object_name(text(pod, 2))
        for container in messages(pod, 3):
            own = object_name(text(container, 1))
            for resource, devices in (*_devices(container, 2), *_claimed(container)):
                yield Allocation(namespace, name, own, resource, devices)


def _devices(message: bytes, number: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields each GPU resource in a field, with its devices. The kubelet gives one entry for each NUMA node
    of a resource; they are joined here."""
    found: dict[str, list[str]] = {}
    for entry in messages(message, number):
        resource = object_name(text(entry, 1))
        if is_gpu(resource):
            found.setdefault(resource, []).extend(object_name(device) for device in texts(entry, 2))
    for resource, devices in found.items():
        # The kubelet lists the devices in no particular order.
        yield resource, tuple(sorted(set(devices)))[:_MOST_DEVICES]


def _claimed(container: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the GPUs that a container got by dynamic resource allocation: the driver that gave them, and
    POOL/DEVICE."""
    for claim in messages(container, 5):
        for resource in messages(claim, 4):
            driver, pool, device = (object_name(text(resource, number)) for number in (2, 3, 4))
            if is_gpu(driver) and device:
                yield driver, (f"{pool}/{device}" if pool else device,)


def is_gpu(resource: str) -> bool:
    """Returns whether a resource is a GPU: ``nvidia.com/gpu``, ``nvidia.com/mig-1g.5gb``,
    ``gpu.nvidia.com``."""
    return "nvidia.com" in resource or "gpu" in resource
