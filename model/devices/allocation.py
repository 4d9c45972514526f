"""Allocations: devices that Kubernetes allocated to containers, whether they use them or not."""

from __future__ import annotations

from dataclasses import dataclass

_REPLICA = "::"
"""Separator between UUID and replica number of a device that is shared by time-slicing or MPS."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Devices of one resource that were allocated to one container."""

    namespace: str
    pod: str
    container: str
    resource: str
    """Name of the resource: ``nvidia.com/gpu``, ``nvidia.com/gpu.shared``, ``nvidia.com/mig-1g.10gb``, …"""
    devices: tuple[str, ...]
    """UUIDs of GPUs or MIG instances, with ``::N`` for replica N; or the ids of the device plugin, if they
    match no device of this host."""
    pod_uid: str = ""
    """UID of the pod; '' if several pods of that name are possible."""
    tenant: str = ""
    """Id of the tenant that runs in the container; '' if none was seen or several are possible."""

    @property
    def uuids(self) -> tuple[str, ...]:
        """UUIDs of ``devices`` without replica numbers, each once."""
        return tuple(dict.fromkeys(device.partition(_REPLICA)[0] for device in self.devices))
