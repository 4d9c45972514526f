"""How a device is shared (exclusively, time-sliced, by MPS, MIG or vGPU), derived from NVML's data."""

from __future__ import annotations

from typing import Final, Literal

from stalltop.model.devices.device import Device, DeviceProcess, MigInstance

Way = Literal["unused", "exclusive", "time-sliced", "mps", "mig", "vgpu", "unknown"]
"""How a device is shared. unused: no tenant uses it; exclusive: one tenant uses it; time-sliced: several
tenants take turns; mps: tenants use it through MPS; mig: MIG divides it; vgpu: stalltop runs in a virtual
machine, and the device is a part of a board of the host; or unknown."""

Hidden = Literal["", "guests", "somebody"]
"""Kind of users of a device that stalltop cannot see. guests: virtual machines that share the device by vGPU;
somebody: the driver lists no process, but the device is busy or its memory is in use; '': no such users."""

MPS_CLIENT: Final = "M+C"
"""Kind of an MPS client (``DeviceProcess.kind``)."""
MPS_PROCESS: Final = "nvidia-cuda-mps"
"""``comm`` of ``nvidia-cuda-mps-server`` and of ``nvidia-cuda-mps-control``: the Linux kernel keeps only the
first 15 characters of a name."""
LISTS: Final = ("compute processes", "graphics processes", "MPS clients")
"""Names of the process lists. A note in ``Device.notes`` has such a name if the list could not be read."""
_NONE_OF_ITS: Final = "not supported"
"""Reason that a note gives if the board does not support a list. A board that does not support graphics
processes or MPS clients has no such processes; a board that does not support compute processes may have
some."""
TURNS_PER_SECOND: Final = 10.0
"""Processes take turns on a GPU if it changes the context at least this often per second. While two processes
both have work, the driver changes it every few ms (measured: 2.2 ms on an H200 with driver 580)."""
DRIVERS_BYTES: Final = 4 << 30
"""Upper bound (4 GiB) of the device memory that the driver itself uses. If more memory is in use, some
process uses the device."""


def way_of(device: Device | MigInstance, tenants: int | None = None, *, unplaced: bool = False) -> Way:
    """Determines how a device is shared.

    ``tenants`` is the number of tenants known to use the device; by default, it is counted from the processes
    that the driver lists. ``unplaced`` is True if other tenants may use the device as well.
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


def turns_per_second(device: Device | MigInstance) -> float | None:
    """Returns how often ``device`` changed the context per second, by the driver's log of context switches.
    None if that is less than ``TURNS_PER_SECOND``, because then the context that is loaded may be idle, and
    nobody waits for it; or if the log was not read."""
    if not isinstance(device, Device) or not device.context_log_ns or device.context_switches is None:
        return None
    found = 1e9 * device.context_switches / device.context_log_ns
    return found if found >= TURNS_PER_SECOND else None


def users_of(device: Device | MigInstance) -> int:
    """Returns the number of tenants whose processes the driver lists on the device. Each process of an
    unknown tenant counts as a tenant."""
    return len({one.tenant or str(one.pid) for one in device.processes if not is_mps(one)})


def unnamed(device: Device | MigInstance) -> int:
    """Returns how many processes the driver lists on the device, if there are at least two and the tenant of
    at least one is unknown (so the tenants cannot be counted). Otherwise returns 0."""
    users = [one for one in device.processes if not is_mps(one)]
    return len(users) if len(users) > 1 and any(not one.tenant for one in users) else 0


def hidden(device: Device | MigInstance, tenants: int) -> Hidden:
    """Returns which kind of users of a device stalltop cannot see; '' if there are none. ``tenants`` is the
    number of tenants known to use the device."""
    busy = None
    if isinstance(device, Device):
        if device.virtualization == "vGPU host":
            return "guests"
        busy = device.utilization_percent
    held = device.memory_used_bytes or 0
    return "somebody" if not tenants and (busy or held > DRIVERS_BYTES) else ""


def is_mps(process: DeviceProcess) -> bool:
    """Returns True if ``process`` belongs to MPS itself (server or control daemon). Such a process does not
    count for a tenant, because the MPS server runs the work of its clients."""
    return process.process.startswith(MPS_PROCESS)


def unlisted(device: Device | MigInstance) -> bool:
    """Returns True if processes on the device may be missing: the GPU is lost, or the list of at least one
    kind of processes could not be read. A list that the board does not support counts only if it is that of
    compute processes."""
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
