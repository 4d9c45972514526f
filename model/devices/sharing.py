"""Who shares which GPU, and what is known of each: the one place where that is decided. Pure functions.

Of a device that several tenants share, the driver tells how busy the whole of it is. How much of that each
tenant takes is measured by nobody where they share it by MPS or in turns, and is never made up here. What is
measured of each tenant stands beside it: its calls on that device, how long it waited for it, what it copied,
the memory it holds, and in which of its time others had work on the device, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Literal

from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Device, DeviceProcess, MigInstance
from stalltop.model.devices.labels import holds
from stalltop.model.devices.placing import processes_on
from stalltop.model.devices.ways import MPS_CLIENT, Hidden, Way, hidden, is_mps, unlisted, way_of
from stalltop.model.devices.work import DeviceWork, Done
from stalltop.model.tenant import Tenant, is_ended
from stalltop.model.window import Window


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
    """Time in which it gave the device work or waited for it; None where that was not measured, and of a GPU
    that is divided by MIG, whose instances tell it."""
    overlaps: tuple[tuple[str, int], ...] = ()
    """Of this, the time (ns) in which another tenant (id) did so, too; the most first."""
    overlaps_sure: bool = True
    """These are all: where somebody was active on a device that was not measured, there may be more."""
    also: tuple[str, ...] = ()
    """Labels of other devices on which some of these calls may have run: its processes use them, too, and
    which call ran where is not known."""
    sample_percent: float | None = None
    """Time in which its kernels ran, as the driver sampled it of each of its processes; None where the driver
    does not tell it of all of them, or not apart from others'."""
    sample_age_seconds: float | None = None
    """The oldest of these samples."""
    mps_client: bool = False
    """The driver lists a process of it as a client of MPS."""
    untraced: str = ""
    """Why not all of what it does is traced, where that is so: then what is counted may be too little."""
    given: bool | None = None
    """Whether a scheduler gave it the device; None where no scheduler tells."""

    @property
    def ended(self) -> bool:
        """Whether it is no tenant, but processes that ended before it was seen whose they were."""
        return is_ended(self.tenant)

    @property
    def at_work(self) -> bool:
        """Whether it made any call, or is in one."""
        return bool(self.calls or self.in_flight)


Use = Literal["used", "idle", "absent", "unknown"]
"""Of a device that was given: calls were made on it; a process has a context on it and made none; none has;
or that is not known."""
Why = Literal["", "tenant", "list", "device"]
"""Why it is not known: which tenant it is, which processes are on the device, or on which device its calls
ran."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A device that a scheduler gave to a container, beside what the container does with it."""

    allocation: Allocation
    use: Use
    why: Why = ""
    """Of ``unknown``."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """Who shares one device: a GPU, or a MIG instance on it."""

    label: str
    """``0``, or ``0:3`` (see ``model.devices.labels``)."""
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
    hidden: Hidden = ""
    """Who uses it and cannot be seen."""
    unplaced: tuple[Sharer, ...] = ()
    """Tenants of its host, none of those on it, with calls of which it is not known on which GPU they ran."""

    @property
    def tenants(self) -> tuple[Sharer, ...]:
        """Those that may still use it."""
        return tuple(one for one in self.sharers if not one.ended)

    @property
    def shared(self) -> bool:
        """Whether several tenants use it, no part of the hardware being anybody's own."""
        return self.way in ("time-sliced", "mps") and len(self.tenants) > 1


def sharings(window: Window) -> tuple[Sharing, ...]:
    """Who shares each GPU of ``window``, in the order of its devices."""
    work = DeviceWork(window)
    return tuple(_of_gpu(work, device) for device in window.devices.devices)


def sharing_of(window: Window, device: Device) -> Sharing:
    """Who shares one GPU of ``window``."""
    return _of_gpu(DeviceWork(window), device)


def unplaced(window: Window) -> tuple[Sharer, ...]:
    """Tenants with calls of which it is not known on which of the GPUs of their host they ran."""
    work = DeviceWork(window)
    return tuple(one for host in sorted(work.elsewhere) for one in _unplaced(work, host, ()))


# ---- how it is worked out


@dataclass(frozen=True, slots=True)
class _Place:
    """A GPU or a MIG instance, and where that is."""

    host: str
    device: Device | MigInstance
    processes: tuple[DeviceProcess, ...]
    """On it, and on its instances."""
    parts: tuple[Sharing, ...] = ()

    @property
    def uuids(self) -> set[str]:
        return {self.device.uuid, *(part.uuid for part in self.parts)}

    @property
    def watched(self) -> bool:
        return not unlisted(self.device) and all(part.watched for part in self.parts)


def _of_gpu(work: DeviceWork, device: Device) -> Sharing:
    host = work.host(device)
    parts = tuple(
        _sharing(work, _Place(host, one, processes_on(device, one)))
        for one in (replace(one, listed=one.listed and not unlisted(device)) for one in device.instances)
    )
    every = {(one.tenant, one.pid): one for one in device.processes}
    for instance in device.instances:
        every.update({(one.tenant, one.pid): one for one in processes_on(device, instance)})
    return _sharing(work, _Place(host, device, tuple(every.values()), parts))


def _sharing(work: DeviceWork, place: _Place) -> Sharing:
    device, label = place.device, place.device.label
    listed: dict[str, list[DeviceProcess]] = {}
    for process in place.processes:
        if not is_mps(process):
            listed.setdefault(process.tenant, []).append(process)
    called = work.on(place.host, label)
    allocations = [one for one in work.window.allocations if place.uuids & set(one.uuids)]
    tenants = listed.keys() | called.keys()
    # Processes whose tenants are not known are listed together, and may be of as many.
    users = sum(bool(one) and not is_ended(one) for one in tenants) + len(listed.get("", ()))
    elsewhere = _unplaced(work, place.host, tenants)
    way = way_of(device, users, unplaced=bool(elsewhere))
    # Whoever was active on a device that is not known may have been here.
    sure = work.unsure.isdisjoint({*tenants, *(one.tenant for one in elsewhere)})
    sharers = tuple(
        replace(
            _sharer(
                work, place, tenant, listed.get(tenant, ()), called.get(tenant, Done()), allocations, way
            ),
            overlaps_sure=sure,
        )
        for tenant in sorted(tenants, key=lambda tenant: _order(work.window, tenant))
    )
    found = Sharing(
        label=label,
        uuid=device.uuid,
        way=way,
        busy_percent=device.utilization_percent if isinstance(device, Device) else None,
        profile=device.profile if isinstance(device, MigInstance) else "",
        sharers=sharers,
        parts=place.parts,
        divisible=isinstance(device, Device) and device.mig is False,
        watched=place.watched,
        hidden="" if place.parts else hidden(device, users),
        unplaced=elsewhere,
    )
    return replace(found, holdings=tuple(_holdings(work.window, allocations, found)))


def _unplaced(work: DeviceWork, host: str, without: Collection[str]) -> tuple[Sharer, ...]:
    return tuple(
        Sharer(
            tenant,
            tuple(sorted(done.pids)),
            calls=done.calls,
            launches=done.launches,
            copied_bytes=done.copied_bytes,
            waited_ns=round(done.waited_ns) if work.split else None,
            in_flight=done.in_flight,
            memory_bytes=work.held.get(tenant),
            memory_traced=tenant in work.held,
            overlaps_sure=False,
        )
        for tenant, done in sorted(
            work.elsewhere.get(host, {}).items(), key=lambda item: _order(work.window, item[0])
        )
        if tenant not in without
    )


def _order(window: Window, tenant: str) -> tuple[bool, str, str]:
    """By name; who is not known comes last."""
    found = window.tenants.get(tenant)
    return not tenant, found.name if found is not None else "", tenant


def _sharer(
    work: DeviceWork,
    place: _Place,
    tenant: str,
    listed: Iterable[DeviceProcess],
    called: Done,
    allocations: Iterable[Allocation],
    way: Way,
) -> Sharer:
    listed = tuple(listed)
    known = [one.memory_bytes for one in listed if one.memory_bytes is not None]
    told = bool(known) and len(known) == len(listed)
    active_ns, overlaps = (None, ()) if place.parts else _activity(work, place.device.label, tenant)
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
        mps_client=any(one.kind == MPS_CLIENT for one in listed),
        untraced=_untraced(work.window, tenant, {one.pid for one in listed}),
        given=_given(work.window, tenant, allocations, place.uuids),
    )


def _untraced(window: Window, tenant: str, pids: Collection[int]) -> str:
    gaps = (
        gap.reason
        for gap in window.coverage.missing
        if gap.pid in pids or (tenant and gap.tenant == tenant and not gap.pid)
    )
    return next(gaps, "")


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


def _given(
    window: Window, tenant: str, allocations: Iterable[Allocation], uuids: AbstractSet[str]
) -> bool | None:
    """Whether a device of these UUIDs was given to a tenant, of which ``allocations`` tell. None where no
    scheduler gives that device, or has told all that the tenant was given, and where it is not sure that none
    of its allocations is the tenant's."""
    allocations = list(allocations)
    if tenant and any(one.tenant == tenant for one in allocations):
        return True
    found, said = window.tenants.get(tenant), window.coverage
    told = window.allocations and tenant in said.scheduled and not uuids.isdisjoint(said.schedulable)
    if found is None or not told:
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


def _holdings(window: Window, allocations: Iterable[Allocation], on: Sharing) -> Iterator[Holding]:
    """What was given of a device, beside who is ``on`` it."""
    at_hand = {tenant.pod_uid for tenant in window.tenants.values()}
    by_tenant: Mapping[str, Sharer] = {one.tenant: one for one in on.sharers if one.tenant}
    elsewhere = {one.tenant for one in on.unplaced}
    for one in sorted(allocations, key=lambda one: (one.namespace, one.pod, one.container, one.pod_uid)):
        sharer = by_tenant.get(one.tenant)
        # A pod that is known, and of which nobody calls or holds a device, does nothing with it.
        nobody = one.pod_uid != "" and one.pod_uid not in at_hand
        if sharer is not None:
            yield Holding(one, "used" if sharer.at_work else "idle")
        elif not one.tenant and not nobody:
            yield Holding(one, "unknown", "tenant")
        elif not on.watched or on.hidden:
            yield Holding(one, "unknown", "list")
        else:
            lost = one.tenant in elsewhere
            yield Holding(one, "unknown" if lost else "absent", "device" if lost else "")
