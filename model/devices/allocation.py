"""Allocations: devices that Kubernetes allocated to containers, whether they use them or not."""

from __future__ import annotations

from dataclasses import dataclass

_REPLICA = "::"
"""Separator between UUID and replica number, in the id of a device that NVIDIA's device plugin shares by
time-slicing or MPS."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Devices of one Kubernetes resource that were allocated to one container."""

    namespace: str
    pod: str
    container: str
    resource: str
    """Name of the resource: ``nvidia.com/gpu``, ``nvidia.com/gpu.shared``, ``nvidia.com/mig-1g.10gb``, …"""
    devices: tuple[str, ...]
    """UUIDs of GPUs or MIG instances, with the suffix ``::N`` for replica N of a shared device. Ids of the
    device plugin that match no device of this host stay as they are."""
    pod_uid: str = ""
    """UID of the pod; '' if it is unknown which of several pods of this name has the devices."""
    tenant: str = ""
    """Id of the tenant that runs in the container; '' if stalltop saw no such tenant, or several tenants are
    possible."""

    @property
    def uuids(self) -> tuple[str, ...]:
        """UUIDs of ``devices`` without replica numbers, each once."""
        return tuple(dict.fromkeys(device.partition(_REPLICA)[0] for device in self.devices))
