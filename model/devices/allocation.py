"""What a scheduler gave to whom: devices that Kubernetes allocated, whether they are used or not."""

from __future__ import annotations

from dataclasses import dataclass

_REPLICA = "::"
"""Between a device and the number of its replica, where one is shared by time-slicing or MPS."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Devices of one kind that one container was given."""

    namespace: str
    pod: str
    container: str
    resource: str
    """Such as ``nvidia.com/gpu``, ``nvidia.com/gpu.shared``, ``nvidia.com/mig-1g.10gb``."""
    devices: tuple[str, ...]
    """UUIDs of GPUs or MIG instances, with ``::N`` for a replica; or what the device plugin calls them, where
    that tells no device of this host."""
    pod_uid: str = ""
    """Empty where it is not known which pod of that name it is."""
    tenant: str = ""
    """Id of the tenant that runs in the container; empty where none was seen, or it is not sure which."""

    @property
    def uuids(self) -> tuple[str, ...]:
        """The devices behind ``devices``, each once."""
        return tuple(dict.fromkeys(device.partition(_REPLICA)[0] for device in self.devices))
