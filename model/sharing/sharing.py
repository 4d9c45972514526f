"""Which tenants share which GPU, and what was measured of each tenant. All other code uses this module to
find out.

The driver reports how busy a shared device is as a whole. With MPS, nothing measures the share of each
tenant; with time-slicing, the driver's log of context switches does, if it can be read. This module does not
estimate shares, but collects what was measured of each tenant: calls on the device, time spent waiting for
the device, the share of time in which the tenant had it, bytes copied, memory held, and the time in which
other tenants had work on the device as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Literal

from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Device, DeviceProcess, MigInstance
from stalltop.model.devices.labels import holds
from stalltop.model.sharing.placing import processes_on
from stalltop.model.sharing.ways import (
    MPS_CLIENT,
    Hidden,
    Way,
    hidden,
    is_mps,
    turns_per_second,
    unlisted,
    way_of,
)
from stalltop.model.sharing.work import DeviceWork, TenantWork
from stalltop.model.tenant import Tenant, is_ended
from stalltop.model.window import Window


@dataclass(frozen=True, slots=True)
class Sharer:
    """One tenant on a device, and what was measured of this tenant on this device within the window."""

    tenant: str
    """Id of the tenant; '' for processes that the driver lists and whose tenant is unknown."""
    pids: tuple[int, ...] = ()
    """PIDs of the tenant's processes that have a context on the device or made calls on it."""
    calls: int = 0
    """Number of outermost calls that returned."""
    launches: int = 0
    """Number of launches of CUDA kernels and graphs among ``calls``."""
    copied_bytes: int = 0
    waited_ns: int | None = None
    """Time that the tenant's threads waited for the device, in calls that synchronise and in synchronous
    copies to the host. None if splits were not measured."""
    in_flight: int = 0
    """Number of outermost calls that had not returned when the window ended."""
    memory_bytes: int | None = None
    """Device memory that the tenant holds; None if unknown."""
    memory_traced: bool = False
    """True if ``memory_bytes`` does not come from the driver, but is the sum of the tenant's traced
    allocations minus frees on all devices."""
    active_ns: int | None = None
    """Time in which the tenant submitted work to the device or waited for the device. None if not measured,
    and for a GPU divided by MIG, because its MIG instances have figures of their own."""
    overlaps: tuple[tuple[str, int], ...] = ()
    """(id of another tenant, ns): the part of ``active_ns`` in which the other tenant was active as well; the
    greatest part first."""
    overlaps_sure: bool = True
    """False if there may be more overlaps, because a tenant was active on an unknown device."""
    also: tuple[str, ...] = ()
    """Labels of other devices on which some of ``calls`` may have run: the tenant's processes use these
    devices as well, and the device of each call is unknown."""
    sample_percent: float | None = None
    """Share of time in which the tenant's CUDA kernels ran, summed over the driver's samples of the tenant's
    processes. None if a process has no sample, or the samples do not separate tenants (MPS)."""
    sample_age_seconds: float | None = None
    """Age in seconds of the oldest sample in ``sample_percent``; None without samples."""
    resident_percent: float | None = None
    """Share of the time in which the tenant's processes had the device (``DeviceProcess.resident_ns``), while
    the driver's log of context switches was read. None if processes did not take turns, or it was not
    read."""
    mps_client: bool = False
    """True if the driver lists at least one of the tenant's processes as an MPS client."""
    untraced: str = ""
    """Reason why some of the tenant's calls are not traced, so that counts may be too low; '' if all calls
    are traced."""
    given: bool | None = None
    """True if a scheduler allocated the device to the tenant, False if not, None if that is unknown."""

    @property
    def ended(self) -> bool:
        """True if this is not a real tenant but ``ENDED_PROCESSES``: all processes that ended before their
        tenant was known."""
        return is_ended(self.tenant)

    @property
    def at_work(self) -> bool:
        """True if the tenant made a call on the device, or has a call open."""
        return bool(self.calls or self.in_flight)


Use = Literal["used", "idle", "absent", "unknown"]
"""Use of an allocated device. used: the container made calls on the device; idle: the container has a context
on the device, but made no calls; absent: the container has no context on the device; or unknown."""
Why = Literal["", "tenant", "list", "device"]
"""The missing fact if the use is ``unknown``. tenant: which tenant runs in the container; list: which
processes are on the device; device: on which device the tenant made its calls. '' for all other uses."""


@dataclass(frozen=True, slots=True)
class Holding:
    """An allocation of a device, and how the container uses that device."""

    allocation: Allocation
    use: Use
    why: Why = ""
    """The missing fact if ``use`` is ``unknown``; else ''."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How tenants share one device: a GPU, or a MIG instance."""

    label: str
    """Label of the device: ``0`` for a GPU, ``0:3`` for a MIG instance (see ``model.devices.labels``)."""
    uuid: str
    way: Way
    switches_per_second: float | None = None
    """How often the GPU changed the context, by the driver's log. None unless processes took turns."""
    busy_percent: float | None = None
    """Utilization of the whole device in percent. None if unknown; the driver reports no utilization of MIG
    instances and of GPUs divided by MIG."""
    profile: str = ""
    """MIG profile of a MIG instance, such as ``1g.10gb``; '' for a GPU."""
    sharers: tuple[Sharer, ...] = ()
    """Tenants on the device, sorted by name so that they keep their places from window to window."""
    holdings: tuple[Holding, ...] = ()
    """Allocations of the device by a scheduler, sorted by namespace, pod and container."""
    parts: tuple[Sharing, ...] = ()
    """How the MIG instances of the GPU are shared; () for a GPU without MIG and for a MIG instance."""
    divisible: bool = False
    """True if the GPU supports MIG and MIG is off."""
    watched: bool = True
    """True if the driver listed the processes on the device. If False, ``sharers`` lacks processes that are
    not traced."""
    hidden: Hidden = ""
    """Kind of users of the device that stalltop cannot see; '' if there are none."""
    unplaced: tuple[Sharer, ...] = ()
    """Tenants other than ``sharers`` that made calls on an unknown GPU of the device's host. This GPU may be
    the device."""

    @property
    def tenants(self) -> tuple[Sharer, ...]:
        """Sharers without ``ENDED_PROCESSES``."""
        return tuple(one for one in self.sharers if not one.ended)

    @property
    def shared(self) -> bool:
        """True if several tenants use the device without partitions of the hardware (time-sliced or MPS)."""
        return self.way in ("time-sliced", "mps") and len(self.tenants) > 1


def sharings(window: Window) -> tuple[Sharing, ...]:
    """Returns how each GPU of ``window`` is shared, in the order of its devices."""
    work = DeviceWork(window)
    return tuple(_of_gpu(work, device) for device in window.devices.devices)


def sharing_of(window: Window, device: Device) -> Sharing:
    """Returns how one GPU of ``window`` is shared."""
    return _of_gpu(DeviceWork(window), device)


def unplaced(window: Window) -> tuple[Sharer, ...]:
    """Returns the tenants that made calls on an unknown GPU of their host."""
    work = DeviceWork(window)
    return tuple(one for host in sorted(work.elsewhere) for one in _unplaced(work, host, ()))


# ---- implementation


@dataclass(frozen=True, slots=True)
class _SharedPlace:
    """A GPU or a MIG instance, with its host and the processes on it."""

    host: str
    device: Device | MigInstance
    processes: tuple[DeviceProcess, ...]
    """Processes on the GPU (including those on its MIG instances) or on the MIG instance."""
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
        _sharing(work, _SharedPlace(host, one, processes_on(device, one)))
        for one in (replace(one, listed=one.listed and not unlisted(device)) for one in device.instances)
    )
    every = {(one.tenant, one.pid): one for one in device.processes}
    for instance in device.instances:
        every.update({(one.tenant, one.pid): one for one in processes_on(device, instance)})
    return _sharing(work, _SharedPlace(host, device, tuple(every.values()), parts))


def _sharing(work: DeviceWork, place: _SharedPlace) -> Sharing:
    device, label = place.device, place.device.label
    listed: dict[str, list[DeviceProcess]] = {}
    for process in place.processes:
        if not is_mps(process):
            listed.setdefault(process.tenant, []).append(process)
    called = work.on(place.host, label)
    allocations = [one for one in work.window.allocations if place.uuids & set(one.uuids)]
    tenants = listed.keys() | called.keys()
    # All processes of unknown tenants have the key '', but each of them counts as a user of its own.
    users = sum(bool(one) and not is_ended(one) for one in tenants) + len(listed.get("", ()))
    elsewhere = _unplaced(work, place.host, tenants)
    way = way_of(device, users, unplaced=bool(elsewhere))
    # A tenant that was active on an unknown device may have been active on this device.
    sure = work.unsure.isdisjoint({*tenants, *(one.tenant for one in elsewhere)})
    sharers = tuple(
        replace(
            _sharer(
                work,
                place,
                tenant,
                listed.get(tenant, ()),
                called.get(tenant, TenantWork()),
                allocations,
                way,
            ),
            overlaps_sure=sure,
        )
        for tenant in sorted(tenants, key=lambda tenant: _order(work.window, tenant))
    )
    found = Sharing(
        label=label,
        uuid=device.uuid,
        way=way,
        switches_per_second=turns_per_second(device) if way == "time-sliced" else None,
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
    """Sort key of tenants: by name, the unknown tenant last."""
    found = window.tenants.get(tenant)
    return not tenant, found.name if found is not None else "", tenant


def _sharer(
    work: DeviceWork,
    place: _SharedPlace,
    tenant: str,
    listed: Iterable[DeviceProcess],
    called: TenantWork,
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
        resident_percent=_resident_percent(listed, place.device, way),
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
    """Returns the active time of a tenant on a device, and the overlaps (tenant id, ns) with other tenants on
    this device; (None, ()) if the active time is unknown."""
    active = [ns for place, ns in work.active.get(tenant, ()) if holds(label, place)]
    if not active:
        return None, ()
    others: dict[str, int] = {}
    for place, other, ns in work.together.get(tenant, ()):
        if holds(label, place):
            others[other] = others.get(other, 0) + ns
    return sum(active), tuple(sorted(others.items(), key=lambda item: (-item[1], item[0])))


def _sample(listed: tuple[DeviceProcess, ...], way: Way) -> tuple[float | None, float | None]:
    """Returns the sum of the driver's samples of a tenant's processes in percent, and the age of the oldest
    sample in seconds; (None, None) if a process has no sample, or with MPS.

    With MPS the samples are useless: the driver credits the work of all MPS clients to one of the clients, or
    to the MPS server.
    """
    percents = [one.sm_percent for one in listed if one.sm_percent is not None]
    if way == "mps" or not percents or len(percents) < len(listed):
        return None, None
    return min(sum(percents), 100.0), max((one.sample_age_seconds or 0.0 for one in listed), default=None)


def _resident_percent(
    listed: Iterable[DeviceProcess], device: Device | MigInstance, way: Way
) -> float | None:
    known = [one.resident_ns for one in listed if one.resident_ns is not None]
    if not known or way != "time-sliced" or not isinstance(device, Device) or not device.context_log_ns:
        return None
    return (
        None if turns_per_second(device) is None else min(100.0 * sum(known) / device.context_log_ns, 100.0)
    )


def _given(
    window: Window, tenant: str, allocations: Iterable[Allocation], uuids: AbstractSet[str]
) -> bool | None:
    """Returns True if one of ``allocations`` is the tenant's, False if none is. ``allocations`` are the
    allocations of one device; ``uuids`` are the UUIDs of this device and of its MIG instances.

    Returns None if the answer is unknown: no scheduler allocates the device, no scheduler reported all
    allocations of the tenant, or it is unknown whether an allocation is the tenant's.
    """
    allocations = list(allocations)
    if tenant and any(one.tenant == tenant for one in allocations):
        return True
    found, said = window.tenants.get(tenant), window.coverage
    told = window.allocations and tenant in said.scheduled and not uuids.isdisjoint(said.schedulable)
    if found is None or not told:
        return None
    # An allocation whose ids match no device of this host may be an allocation of this device.
    devices = {uuid for device in window.devices.devices for uuid in _uuids(device)}
    unplaced = (one for one in window.allocations if not devices.issuperset(one.uuids))
    return None if any(_may_be(one, found) for one in (*allocations, *unplaced)) else False


def _uuids(device: Device) -> tuple[str, ...]:
    return (device.uuid, *(one.uuid for one in device.instances))


def _may_be(allocation: Allocation, tenant: Tenant) -> bool:
    """Returns True if ``allocation``, whose tenant or device is uncertain, may belong to ``tenant``."""
    if allocation.tenant or not tenant.pod:
        return allocation.tenant == tenant.id
    if allocation.pod_uid and tenant.pod_uid:
        return allocation.pod_uid == tenant.pod_uid
    return (allocation.namespace, allocation.pod) == (tenant.namespace, tenant.pod)


def _holdings(window: Window, allocations: Iterable[Allocation], on: Sharing) -> Iterator[Holding]:
    """Yields a ``Holding`` for each of ``allocations``, the allocations of one device. ``on`` says which
    tenants are on the device."""
    at_hand = {tenant.pod_uid for tenant in window.tenants.values()}
    by_tenant: Mapping[str, Sharer] = {one.tenant: one for one in on.sharers if one.tenant}
    elsewhere = {one.tenant for one in on.unplaced}
    for one in sorted(allocations, key=lambda one: (one.namespace, one.pod, one.container, one.pod_uid)):
        sharer = by_tenant.get(one.tenant)
        # If True, no tenant of this pod makes calls or has a context, so the pod does not use the device.
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
