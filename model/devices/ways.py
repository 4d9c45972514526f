"""How a device is shared (exclusively, time-sliced, by MPS, MIG or vGPU), derived from NVML's data."""

from __future__ import annotations

from typing import Final, Literal

from stalltop.model.devices.device import Device, DeviceProcess, MigInstance

Way = Literal["unused", "exclusive", "time-sliced", "mps", "mig", "vgpu", "unknown"]
"""How a device is shared. unused: by no tenant; exclusive: one tenant; time-sliced: several tenants take
turns; mps: several tenants at once through MPS; mig: divided by MIG; vgpu: this is a part of a board in a
virtual machine; or unknown."""

Hidden = Literal["", "guests", "somebody"]
"""Users that cannot be seen. guests: virtual machines that share the device by vGPU; somebody: processes
that the driver does not list, although the device is busy or its memory is in use."""

MPS_CLIENT: Final = "M+C"
"""Kind of an MPS client (``DeviceProcess.kind``)."""
MPS_PROCESS: Final = "nvidia-cuda-mps"
"""``comm`` of ``nvidia-cuda-mps-server`` and ``-control``: the Linux kernel keeps 15 characters."""
LISTS: Final = ("compute processes", "graphics processes", "MPS clients")
"""Names of the process lists in ``Device.notes``, if a list could not be read."""
_NONE_OF_ITS: Final = "not supported"
"""Reason in a note if the board does not support a list. It then has no such processes, unless it is
``LISTS[0]``."""
DRIVERS_BYTES: Final = 4 << 30
"""Upper bound of the device memory that the driver itself uses: more means that somebody uses the device."""


def way_of(device: Device | MigInstance, tenants: int | None = None, *, unplaced: bool = False) -> Way:
    """Determines how a device is shared.

    ``tenants`` is the number of tenants known to use it, by default those of the processes that the driver
    lists;
    ``unplaced`` says that other tenants may use it as well.
    """
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
    """Returns the number of tenants that the driver lists on it; a process of an unknown tenant counts as
    one."""
    return len({one.tenant or str(one.pid) for one in device.processes if not is_mps(one)})


def unnamed(device: Device | MigInstance) -> int:
    """Returns the number of processes that the driver lists on it, if the number of their tenants is
    unknown: there are several, and the tenant of one at least is unknown. Else returns 0."""
    users = [one for one in device.processes if not is_mps(one)]
    return len(users) if len(users) > 1 and any(not one.tenant for one in users) else 0


def hidden(device: Device | MigInstance, tenants: int) -> Hidden:
    """Returns which users of a device cannot be seen; ``tenants`` is the number of known ones."""
    busy = None
    if isinstance(device, Device):
        if device.virtualization == "vGPU host":
            return "guests"
        busy = device.utilization_percent
    held = device.memory_used_bytes or 0
    return "somebody" if not tenants and (busy or held > DRIVERS_BYTES) else ""


def is_mps(process: DeviceProcess) -> bool:
    """Returns True for the processes of MPS itself, which are not tenants: a server runs its clients'
    work."""
    return process.process.startswith(MPS_PROCESS)


def unlisted(device: Device | MigInstance) -> bool:
    """Returns True if the driver did not list the processes on it, or not those of every kind."""
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
