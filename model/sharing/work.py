"""Sums the calls of a window by device and tenant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from stalltop.model.devices.device import Device
from stalltop.model.devices.labels import UNKNOWN, holds, parts_of
from stalltop.model.families import WAITING_PARTS, Family, kind_of
from stalltop.model.hosts.names import host_of
from stalltop.model.row_key import RowKey
from stalltop.model.sharing.placing import Labels, Placement, placement
from stalltop.model.window import SPLITS, Window

_WAITING: Final = [SPLITS.index(part) for part in WAITING_PARTS]
_ON_A_DEVICE: Final = frozenset(
    (
        Family.LAUNCH,
        Family.GRAPH_LAUNCH,
        Family.ALLOC,
        Family.POOL_ALLOC,
        Family.COPY,
        Family.MEMSET,
        Family.PREFETCH,
        Family.SYNC,
        Family.COLLECTIVE,
        Family.POINT,
    )
)
"""Families of calls that use a device. All other calls need not use a device: they may only query devices."""


@dataclass(slots=True)
class TenantWork:
    """Sums over one tenant's calls on one device."""

    calls: int = 0
    """Number of outermost calls that returned."""
    launches: int = 0
    """Number of launches of CUDA kernels and graphs among ``calls``."""
    copied_bytes: int = 0
    waited_ns: float = 0.0
    """Time spent waiting for the device, in calls that synchronise and in synchronous copies to the host."""
    in_flight: int = 0
    """Number of outermost calls that had not returned when the window ended."""
    pids: set[int] = field(default_factory=set)
    also: set[str] = field(default_factory=set)
    """Labels of other devices on which some of ``calls`` may have run instead."""


class DeviceWork:
    """Calls and activity of the tenants of a window on its devices."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.split = window.rows.split_ns is not None
        """True if splits were measured."""
        self.held = _held(window)
        """By tenant: bytes of device memory held on all devices together, from traced allocations."""
        self._only = _only(window)
        self.active: dict[str, list[tuple[str, int]]] = {}
        """By tenant: (label of a device, time in ns in which it was active there)."""
        self.together: dict[str, list[tuple[str, str, int]]] = {}
        """By tenant: (label of a device, other tenant, time in ns in which both were active there)."""
        self._placement: Placement = placement(window)
        self._sums: dict[tuple[str, str], dict[str, TenantWork]] = {}
        """Sums by (host, label of the device) and tenant."""
        self.elsewhere: dict[str, dict[str, TenantWork]] = {}
        """Sums of the calls whose device is unknown, by host and tenant."""
        self.unsure: set[str] = set()
        """Tenants that were active on an unknown device, so that some of their overlaps are unknown."""
        self._gpus = {(self.host(device), device.label) for device in window.devices.devices}
        self._hosts = {host for host, _ in self._gpus}
        self._unlabelled: dict[str, set[Labels]] = {}
        """By tenant: for each row without a measured device, the devices on which its calls may have run."""
        self._add_rows()
        for call in window.open_calls:
            if not call.nested and not call.ended:
                key = RowKey(
                    host_of(window.host, call.tenant),
                    *(call.tenant, call.pid, call.process, call.layer, call.operation),
                    device=call.device,
                )  # fmt: skip
                for found in self._of(key):
                    found.in_flight += 1
        self._add_activity()

    def host(self, device: Device) -> str:
        """Returns the name of the host that ``device`` is on."""
        return device.host or self.window.host

    def on(self, host: str, label: str) -> dict[str, TenantWork]:
        """Returns the sums by tenant for the device ``label`` of a host, including those for its MIG
        instances."""
        found: dict[str, TenantWork] = {}
        for (of, place), by_tenant in self._sums.items():
            if of == host and holds(label, place):
                for tenant, one in by_tenant.items():
                    _put(found.setdefault(tenant, TenantWork()), one, label)
        return found

    def devices(self, key: RowKey) -> Labels:
        """Returns the labels of the devices on which the calls of a row may have run."""
        found = self._placement.devices(key)
        only = self._only.get(key.host, "")
        return found or ((only,) if only else ())

    def _add_activity(self) -> None:
        evidence = self.window.evidence
        for one in evidence.activity:
            place = self._place(one.tenant, one.device)
            self.active.setdefault(one.tenant, []).append((place, one.active_ns))
            if not one.device:
                self.unsure.add(one.tenant)
        for pair in evidence.overlaps:
            place = self._place(pair.tenant or pair.other, pair.device)
            self.together.setdefault(pair.tenant, []).append((place, pair.other, pair.ns))
            self.together.setdefault(pair.other, []).append((place, pair.tenant, pair.ns))

    def _place(self, tenant: str, label: str) -> str:
        """Returns the label of the device on which a tenant was active: ``label``, if it was measured.

        If it was not measured ('' is given), returns the only device of the tenant's host, or the only device
        on which the tenant's calls can have run; '' if several are possible. Also returns '' in a window of
        several hosts if the host of the tenant is unknown.
        """
        host = host_of(self.window.host, tenant)
        if not host:
            return UNKNOWN
        if label or self._only.get(host):
            return label or self._only[host]
        found = self._unlabelled.get(tenant, set())
        labels = next(iter(found)) if len(found) == 1 else ()
        return labels[0] if len(labels) == 1 else UNKNOWN

    def _add_rows(self) -> None:
        rows, window = self.window.rows, self.window
        wall_ns = max(window.seconds, 1e-6) * 1e9
        splits = rows.split_ns.tolist() if rows.split_ns is not None else None
        columns = zip(
            rows.keys, rows.calls.tolist(), rows.bytes.tolist(), rows.total_ns.tolist(), strict=True
        )
        for at, (key, calls, moved, total_ns) in enumerate(columns):
            if not calls or not key.outermost:
                continue
            kind = kind_of(key.layer, key.operation)
            # An asynchronous copy waits, too, if the host's memory is not pinned; else it returns at once.
            waits = kind.family is Family.SYNC or (kind.family is Family.COPY and kind.direction == "DtoH")
            waited = 0.0
            if waits and splits is not None and total_ns:
                # If the calls are longer than the window on average, a part of their time lies before the
                # window. Their waits are then divided by (mean duration / length of the window).
                within = min(1.0, calls * wall_ns / total_ns)
                waited = within * sum(splits[at][part] for part in _WAITING)
            for found in self._of(key):
                found.calls += calls
                found.waited_ns += waited
                if kind.family in (Family.LAUNCH, Family.GRAPH_LAUNCH):
                    found.launches += calls
                elif kind.family is Family.COPY:
                    found.copied_bytes += moved

    def _of(self, key: RowKey) -> list[TenantWork]:
        """Returns the ``TenantWork`` objects that count the calls of a row: one for each device on which the
        calls may have run, or one of ``elsewhere`` if the device is unknown. Empty if the calls use no
        device, or only a device that no longer exists."""
        labels = self.devices(key)
        family = kind_of(key.layer, key.operation).family
        if not key.device and family is not Family.HOST:
            self._unlabelled.setdefault(key.tenant, set()).add(labels)
        if not any((key.host, label.partition(":")[0]) in self._gpus for label in labels):
            # A device that no longer exists may have its UUID as label.
            gone = bool(key.device) and parts_of(key.device) is None
            if gone or family not in _ON_A_DEVICE or key.host not in self._hosts:
                return []
            one = self.elsewhere.setdefault(key.host, {}).setdefault(key.tenant, TenantWork())
            one.pids.add(key.pid)
            return [one]
        found = []
        for label in labels:
            one = self._sums.setdefault((key.host, label), {}).setdefault(key.tenant, TenantWork())
            one.pids.add(key.pid)
            one.also.update(other for other in labels if other != label)
            found.append(one)
        return found


def _put(into: TenantWork, one: TenantWork, label: str) -> None:
    into.calls += one.calls
    into.launches += one.launches
    into.copied_bytes += one.copied_bytes
    into.waited_ns += one.waited_ns
    into.in_flight += one.in_flight
    into.pids |= one.pids
    into.also |= {other for other in one.also if not holds(label, other)}


def _only(window: Window) -> dict[str, str]:
    """Returns the label of the only device of each host, by host; '' for hosts with several devices or with
    MIG."""
    found: dict[str, str] = {}
    for device in window.devices.devices:
        host = device.host or window.host
        divided = device.instances or device.mig
        found[host] = UNKNOWN if host in found or divided else device.label
    return found


def _held(window: Window) -> dict[str, int]:
    found: dict[str, int] = {}
    for use in window.evidence.processes:
        if use.held_bytes is not None:
            found[use.tenant] = found.get(use.tenant, 0) + use.held_bytes
    return found
