"""How a device is shared, by what the driver tells of it. Pure functions."""

from __future__ import annotations

from typing import Final, Literal

from stalltop.model.devices.device import Device, DeviceProcess, MigInstance

Way = Literal["unused", "exclusive", "time-sliced", "mps", "mig", "vgpu", "unknown"]
"""How a device is shared: nobody uses it, one tenant alone does, several do in turns, or at once through MPS;
it is divided by MIG, or a part of a board that other virtual machines use; or that is not known."""

Hidden = Literal["", "guests", "somebody"]
"""Virtual machines that the device is divided among; or somebody whom the driver does not list, though the
device is busy or its memory is taken."""

MPS_CLIENT: Final = "M+C"
MPS_PROCESS: Final = "nvidia-cuda-mps"
"""How the kernel calls ``nvidia-cuda-mps-server`` and ``-control``: 15 characters are kept of a name."""
LISTS: Final = ("compute processes", "graphics processes", "MPS clients")
"""What the notes of a device call the lists of its processes, where one could not be read."""
_NONE_OF_ITS: Final = "not supported"
"""Of the later ones: a board that has no such processes."""
DRIVERS_BYTES: Final = 4 << 30
"""Device memory that the driver keeps for itself is less."""


def way_of(device: Device | MigInstance, tenants: int | None = None, *, unplaced: bool = False) -> Way:
    """How a device is shared, by what the driver tells of it; ``tenants``: how many are known to use it, by
    default those of the processes that the driver lists; ``unplaced``: others may use it, too."""
    if isinstance(device, Device):
        if device.instances or device.mig:
            return "mig"
        if device.virtualization == "vGPU":
            return "vgpu"
    users = [one for one in device.processes if not is_mps(one)]
    if len(users) < len(device.processes) or any(one.kind == MPS_CLIENT for one in users):
        return "mps"
    found = users_of(device) if tenants is None else tenants
    if found > 1:
        return "time-sliced"
    if unplaced or unlisted(device) or hidden(device, found):
        return "unknown"
    return "exclusive" if found else "unused"


def users_of(device: Device | MigInstance) -> int:
    """How many tenants the driver lists on it; a process whose tenant is not known counts as one."""
    return len({one.tenant or str(one.pid) for one in device.processes if not is_mps(one)})


def unnamed(device: Device | MigInstance) -> int:
    """How many processes the driver lists on it, where some of several are of tenants that are not known: of
    how many tenants they are is not known either; else 0."""
    users = [one for one in device.processes if not is_mps(one)]
    return len(users) if len(users) > 1 and any(not one.tenant for one in users) else 0


def hidden(device: Device | MigInstance, tenants: int) -> Hidden:
    """Who uses a device, on which so many tenants are known, and cannot be seen."""
    busy = None
    if isinstance(device, Device):
        if device.virtualization == "vGPU host":
            return "guests"
        busy = device.utilization_percent
    held = device.memory_used_bytes or 0
    return "somebody" if not tenants and (busy or held > DRIVERS_BYTES) else ""


def is_mps(process: DeviceProcess) -> bool:
    """Whether it is MPS itself: a server has its clients' work in a context of its own, and is no tenant."""
    return process.process.startswith(MPS_PROCESS)


def unlisted(device: Device | MigInstance) -> bool:
    """Whether the driver does not tell which processes are on it, or not of each kind."""
    if isinstance(device, MigInstance):
        return not device.listed
    if device.lost:
        return True
    for said in device.notes:
        whats, _, reason = said.partition(": ")
        failed = set(whats.split(", ")) & set(LISTS)
        if LISTS[0] in failed or (failed and reason != _NONE_OF_ITS):
            return True
    return False
