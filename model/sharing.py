"""Who shares which GPU, and what is known of each: the one place where that is decided. Pure functions.

Of a device that several tenants share, the driver tells how busy the whole of it is. How much of that each
tenant takes is measured by nobody where they share it by MPS or in turns, and is never made up here. What is
measured of each tenant stands beside it: its calls on that device, how long it waited for it, what it copied,
the memory it holds, and in which of its time others had work on the device, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from model.allocation import Allocation
from model.device import Device, DeviceProcess, MigInstance
from model.device_label import holds
from model.device_work import DeviceWork, Done
from model.tenant import Tenant
from model.window import Window

Way = Literal["unused", "exclusive", "time-sliced", "mps", "mig", "vgpu", "unknown"]
"""How a device is shared: nobody uses it, one tenant alone does, several do in turns, or at once through MPS;
it is divided by MIG, or a part of a board that other virtual machines use; or that is not known."""

MPS_CLIENT: Final = "M+C"
MPS_PROCESS: Final = "nvidia-cuda-mps"
"""How the kernel calls ``nvidia-cuda-mps-server`` and ``-control``: 15 characters are kept of a name."""
_LIST: Final = "compute processes"
"""What the notes of a device call the list of its processes, where it could not be read."""


@dataclass(frozen=True, slots=True)
class Sharer:
    """One tenant on a device, and what was measured of it there within the window."""

    tenant: str
    """Its id; empty for processes that the driver lists and whose tenant is not known."""
    pids: tuple[int, ...] = ()
    """Those with a context on the device, and those that made calls on it."""
    calls: int = 0
    """Outermost ones that returned."""
    launches: int = 0
    """Of these, kernels and graphs given to the device."""
    copied_bytes: int = 0
    waited_ns: int | None = None
    """How long its threads waited for the device: in calls that synchronise, and in copies to the host that
    wait. None where the time in calls was not divided."""
    in_flight: int = 0
    """Outermost calls that had not returned when the window ended."""
    memory_bytes: int | None = None
    """Device memory that it holds; None where that is not known."""
    memory_traced: bool = False
    """The driver does not tell: it is what was allocated and not freed while traced, on all devices."""
    active_ns: int | None = None
    """Time in which it gave the device work or waited for it; None where that was not measured."""
    overlaps: tuple[tuple[str, int], ...] = ()
    """Of this, the time (ns) in which another tenant (id) did so, too; the most first."""
    also: tuple[str, ...] = ()
    """Labels of other devices on which some of these calls may have run: its processes use them, too, and
    which call ran where is not known."""
    sample_percent: float | None = None
    """Time in which its kernels ran, as the driver sampled it of each of its processes; None where the driver
    does not tell it of all of them, or not apart from others'."""
    sample_age_seconds: float | None = None
    """The oldest of these samples."""
    given: bool | None = None
    """Whether a scheduler gave it the device; None where no scheduler tells."""

    @property
    def at_work(self) -> bool:
        """Whether it made any call, or is in one."""
        return bool(self.calls or self.in_flight)


Use = Literal["used", "idle", "absent", "unknown"]
"""Of a device that was given: calls were made on it; a process has a context on it and made none; none has;
or the tenant is not known."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A device that a scheduler gave to a container, beside what the container does with it."""

    allocation: Allocation
    use: Use


@dataclass(frozen=True, slots=True)
class Sharing:
    """Who shares one device: a GPU, or a MIG instance on it."""

    label: str
    """``0``, or ``0:3`` (see ``model.device_label``)."""
    uuid: str
    way: Way
    busy_percent: float | None = None
    """Of the whole device; the driver gives none of MIG instances, nor of GPUs that are divided by MIG."""
    profile: str = ""
    """The size of a MIG instance."""
    sharers: tuple[Sharer, ...] = ()
    """By name of the tenant, so that they stay where they are from one window to the next."""
    holdings: tuple[Holding, ...] = ()
    """What a scheduler gave of it, by namespace, pod and container."""
    parts: tuple[Sharing, ...] = ()
    """The MIG instances of a GPU."""
    divisible: bool = False
    """The GPU could be divided by MIG, and is not."""
    watched: bool = True
    """The driver told which processes are on it: without, those that are not traced are missing."""

    @property
    def shared(self) -> bool:
        """Whether several tenants use it, no part of the hardware being anybody's own."""
        return self.way in ("time-sliced", "mps") and len(self.sharers) > 1


def way_of(device: Device | MigInstance, tenants: int | None = None) -> Way:
    """How a device is shared, by what the driver tells of it; ``tenants``: how many are known to use it, by
    default those of the processes that the driver lists."""
    if isinstance(device, Device):
        if device.instances or device.mig:
            return "mig"
        if device.virtualization == "vGPU":
            return "vgpu"
    users = [one for one in device.processes if not is_mps(one)]
    if len(users) < len(device.processes) or any(one.kind == MPS_CLIENT for one in users):
        return "mps"
    found = users_of(device) if tenants is None else tenants
    if not found:
        return "unknown" if unlisted(device) else "unused"
    return "exclusive" if found == 1 else "time-sliced"


def users_of(device: Device | MigInstance) -> int:
    """How many tenants the driver lists on it; a process whose tenant is not known counts as one."""
    return len({one.tenant or str(one.pid) for one in device.processes if not is_mps(one)})


def is_mps(process: DeviceProcess) -> bool:
    """Whether it is MPS itself: a server has its clients' work in a context of its own, and is no tenant."""
    return process.process.startswith(MPS_PROCESS)


def unlisted(device: Device | MigInstance) -> bool:
    """Whether the driver does not tell which processes are on it."""
    if isinstance(device, MigInstance):
        return False
    return device.lost or any(_LIST in said.partition(": ")[0].split(", ") for said in device.notes)


def processes_on(device: Device, place: Device | MigInstance) -> tuple[DeviceProcess, ...]:
    """The processes on a GPU, or on one of its MIG instances: the driver lists them with the instance or with
    its GPU."""
    if isinstance(place, Device) or place.processes or place.gpu_instance is None:
        return place.processes
    return tuple(
        one
        for one in device.processes
        if one.gpu_instance == place.gpu_instance and one.compute_instance in (None, place.compute_instance)
    )


def sharings(window: Window) -> tuple[Sharing, ...]:
    """Who shares each GPU of ``window``, in the order of its devices."""
    work = DeviceWork(window)
    return tuple(_of_gpu(work, device) for device in window.devices.devices)


def sharing_of(window: Window, device: Device) -> Sharing:
    """Who shares one GPU of ``window``."""
    return _of_gpu(DeviceWork(window), device)


# ---- how it is worked out


def _of_gpu(work: DeviceWork, device: Device) -> Sharing:
    host = work.host(device)
    parts = tuple(
        _sharing(work, host, one.label, one.uuid, one, processes_on(device, one), profile=one.profile)
        for one in device.instances
    )
    given = tuple(one.uuid for one in device.instances)
    every = {(one.tenant, one.pid): one for one in device.processes}
    for instance in device.instances:
        every.update({(one.tenant, one.pid): one for one in processes_on(device, instance)})
    return _sharing(
        work, host, device.label, device.uuid, device, tuple(every.values()), parts=parts, within=given
    )


def _sharing(
    work: DeviceWork,
    host: str,
    label: str,
    uuid: str,
    device: Device | MigInstance,
    processes: tuple[DeviceProcess, ...],
    *,
    profile: str = "",
    parts: tuple[Sharing, ...] = (),
    within: tuple[str, ...] = (),
) -> Sharing:
    listed: dict[str, list[DeviceProcess]] = {}
    for process in processes:
        if not is_mps(process):
            listed.setdefault(process.tenant, []).append(process)
    called = work.on(host, label)
    allocations = [one for one in work.window.allocations if {uuid, *within} & set(one.uuids)]
    tenants = listed.keys() | called.keys()
    # Processes whose tenants are not known are listed together, and may be of as many.
    way = way_of(device, len(tenants - {""}) + len(listed.get("", ())))
    sharers = tuple(
        _sharer(work, label, tenant, listed.get(tenant, ()), called.get(tenant, Done()), allocations, way)
        for tenant in sorted(tenants, key=lambda tenant: _order(work.window, tenant))
    )
    return Sharing(
        label=label,
        uuid=uuid,
        way=way,
        busy_percent=device.utilization_percent if isinstance(device, Device) else None,
        profile=profile,
        sharers=sharers,
        holdings=tuple(_holdings(work.window, allocations, sharers)),
        parts=parts,
        divisible=isinstance(device, Device) and device.mig is False,
        watched=not unlisted(device),
    )


def _order(window: Window, tenant: str) -> tuple[bool, str, str]:
    """By name; who is not known comes last."""
    found = window.tenants.get(tenant)
    return not tenant, found.name if found is not None else "", tenant


def _sharer(
    work: DeviceWork,
    label: str,
    tenant: str,
    listed: Iterable[DeviceProcess],
    called: Done,
    allocations: Iterable[Allocation],
    way: Way,
) -> Sharer:
    listed = tuple(listed)
    known = [one.memory_bytes for one in listed if one.memory_bytes is not None]
    told = bool(known) and len(known) == len(listed)
    active_ns, overlaps = _activity(work, label, tenant)
    percent, age = _sample(listed, way)
    return Sharer(
        tenant=tenant,
        pids=tuple(sorted({*called.pids, *(one.pid for one in listed)})),
        calls=called.calls,
        launches=called.launches,
        copied_bytes=called.copied_bytes,
        waited_ns=round(called.waited_ns) if work.split else None,
        in_flight=called.in_flight,
        memory_bytes=sum(known) if told else work.held.get(tenant),
        memory_traced=not told and tenant in work.held,
        active_ns=active_ns,
        overlaps=overlaps,
        also=tuple(sorted(called.also)),
        sample_percent=percent,
        sample_age_seconds=age,
        given=_given(work.window, tenant, allocations),
    )


def _activity(work: DeviceWork, label: str, tenant: str) -> tuple[int | None, tuple[tuple[str, int], ...]]:
    """The time in which a tenant had work on a device, and of this that of each other tenant."""
    active = [ns for place, ns in work.active.get(tenant, ()) if holds(label, place)]
    if not active:
        return None, ()
    others: dict[str, int] = {}
    for place, other, ns in work.together.get(tenant, ()):
        if holds(label, place):
            others[other] = others.get(other, 0) + ns
    return sum(active), tuple(sorted(others.items(), key=lambda item: (-item[1], item[0])))


def _sample(listed: tuple[DeviceProcess, ...], way: Way) -> tuple[float | None, float | None]:
    """What the driver sampled of all of a tenant's processes, and how old that is. Nothing with MPS: there it
    credits the work of all clients to one of them, or to the server."""
    percents = [one.sm_percent for one in listed if one.sm_percent is not None]
    if way == "mps" or not percents or len(percents) < len(listed):
        return None, None
    return min(sum(percents), 100.0), max((one.sample_age_seconds or 0.0 for one in listed), default=None)


def _given(window: Window, tenant: str, allocations: Iterable[Allocation]) -> bool | None:
    """Whether a device was given to a tenant, of which ``allocations`` tell. None where no scheduler tells
    anything on this host, or where it is not sure that none of its allocations is the tenant's."""
    if not window.allocations or not tenant:
        return None
    allocations = list(allocations)
    if any(one.tenant == tenant for one in allocations):
        return True
    found = window.tenants.get(tenant)
    # A pod that is known by its UID only may be so new that what it was given is not told yet.
    if found is None or (found.pod_uid and found.pod == found.pod_uid):
        return None
    # One that names no device of this host may be of this one.
    devices = {uuid for device in window.devices.devices for uuid in _uuids(device)}
    unplaced = (one for one in window.allocations if not devices.issuperset(one.uuids))
    return None if any(_may_be(one, found) for one in (*allocations, *unplaced)) else False


def _uuids(device: Device) -> tuple[str, ...]:
    return (device.uuid, *(one.uuid for one in device.instances))


def _may_be(allocation: Allocation, tenant: Tenant) -> bool:
    """Whether an allocation of which the tenant or the device is not sure may be this one's."""
    if allocation.tenant or not tenant.pod:
        return allocation.tenant == tenant.id
    if allocation.pod_uid and tenant.pod_uid:
        return allocation.pod_uid == tenant.pod_uid
    return (allocation.namespace, allocation.pod) == (tenant.namespace, tenant.pod)


def _holdings(window: Window, allocations: Iterable[Allocation], sharers: Iterable[Sharer]) -> list[Holding]:
    at_hand = {tenant.pod_uid for tenant in window.tenants.values()}
    by_tenant: Mapping[str, Sharer] = {one.tenant: one for one in sharers if one.tenant}
    found = []
    for one in sorted(allocations, key=lambda one: (one.namespace, one.pod, one.container, one.pod_uid)):
        sharer = by_tenant.get(one.tenant)
        # A pod that is known, and of which nobody calls or holds a device, does nothing with it.
        nobody = one.pod_uid != "" and one.pod_uid not in at_hand
        use: Use = "absent" if one.tenant or nobody else "unknown"
        if sharer is not None:
            use = "used" if sharer.at_work else "idle"
        found.append(Holding(one, use))
    return found
