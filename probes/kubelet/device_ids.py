"""Translates the names that device plugins and drivers give to devices into UUIDs.

NVIDIA's plugin uses UUIDs, or indexes if it is configured so. GKE's plugin uses the names of device files.
Drivers of dynamic resource allocation use names of their own. A name that cannot be translated is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Device, Devices

_REPLICA: Final = re.compile(r"(?P<device>.+?)(?:::|/vgpu)(?P<replica>\d+)")
"""Matches the name of one of several replicas that share a device: ``GPU-…::2`` of NVIDIA's plugin,
``nvidia0/vgpu2`` of GKE's."""
_CLAIMED: Final = "gpu.nvidia.com"
"""NVIDIA's driver of dynamic resource allocation; its devices are named ``POOL/gpu-0``."""


def with_uuids(allocations: Iterable[Allocation], devices: Devices) -> tuple[Allocation, ...]:
    """Returns ``allocations`` with device names replaced by the UUIDs of this host's devices. A replica gets
    the UUID with its number, as ``GPU-…::2``. Names that are UUIDs or cannot be translated stay."""
    names = _names(devices.devices)
    return tuple(
        replace(one, devices=tuple(_uuid(device, one.resource, names) for device in one.devices))
        for one in allocations
    )


def uuids_of(allocatable: Iterable[tuple[str, tuple[str, ...]]], devices: Devices) -> tuple[str, ...]:
    """Returns the UUIDs of those of this host's devices that are named in ``allocatable``, sorted."""
    names = _names(devices.devices)
    here = {
        uuid for device in devices.devices for uuid in (device.uuid, *(one.uuid for one in device.instances))
    }
    found = {
        _uuid(called, resource, names).partition("::")[0] for resource, each in allocatable for called in each
    }
    return tuple(sorted(found & here))


def _uuid(called: str, resource: str, names: dict[str, str]) -> str:
    found = _REPLICA.fullmatch(called)
    device, replica = (found["device"], f"::{found['replica']}") if found else (called, "")
    own = device.rpartition("/")[2] if resource == _CLAIMED else device
    return names[own] + replica if own in names else called


def _names(devices: Iterable[Device]) -> dict[str, str]:
    """Returns the UUIDs of devices, by every name that identifies exactly one device."""
    found: dict[str, str] = {}
    for name, uuid in (pair for device in devices for pair in _called(device)):
        found[name] = uuid if found.get(name, uuid) == uuid else ""
    return {name: uuid for name, uuid in found.items() if uuid}


def _called(device: Device) -> Iterable[tuple[str, str]]:
    file = f"nvidia{device.minor}" if device.minor is not None else ""
    yield str(device.index), device.uuid
    if file:
        yield file, device.uuid
        yield f"gpu-{device.minor}", device.uuid
    for one in device.instances:
        yield one.label, one.uuid
        # Name of a MIG device in drivers before 470.
        yield f"MIG-{device.uuid}/{one.gpu_instance}/{one.compute_instance}", one.uuid
        if file:
            yield f"{file}/gi{one.gpu_instance}", one.uuid
