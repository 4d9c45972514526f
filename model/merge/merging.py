"""Merges windows: consecutive windows of one host into a longer window, and windows of several hosts into the
window of a fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stalltop.model.calls import CapturedCalls, added_calls, with_call_tenants
from stalltop.model.chain import worst_first
from stalltop.model.cuda_kernels import added_kernels, with_kernel_tenants
from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap
from stalltop.model.devices.device import DeviceProcess, Devices
from stalltop.model.evidence import Evidence, added, with_tenants
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.hosts.names import BETWEEN_HOSTS, hosts_in, with_host
from stalltop.model.merge.moving import renamings
from stalltop.model.network_ports import of_host
from stalltop.model.row_key import RowKey
from stalltop.model.stacks.stack import with_stack_tenants
from stalltop.model.stacks.sums import added_stacks, stacks_in_time
from stalltop.model.tenant import Tenant
from stalltop.model.window import MOST_ENDED, U64, Coverage, OpenCall, Rows, Window

_AT_ONCE = 32
_Labelled = TypeVar("_Labelled", DeviceActivity, DeviceOverlap, OpenCall)


def merge(windows: Sequence[Window]) -> Window:
    """Merges ``windows``; the windows of one host must be in order of time. Raises ValueError if ``windows``
    is empty.

    Windows of one host are consecutive: their seconds and the counters of devices add up, gauges (devices,
    system, open calls, coverage, chains) are those of the last window, and the cost of the probes is the mean
    over time. Open calls of ended threads are not gauges: the longest ``MOST_ENDED`` of all windows are kept.
    In all rows, a device is named by its newest label. If a device that was seen later has this label, the
    earlier device is named by its UUID instead. ``Devices.gone`` has the devices that the last window lacks.

    Windows of several hosts are parallel: the result has the seconds of the longest window and the gauges
    of all windows, but no ``system``. Ids of tenants and chains get the name of their host in front, because
    they are unique on one host only.

    Calls, losses, histograms and evidence always add up exactly. Merging is associative: merging windows in
    groups and then merging the results is the same as merging all windows at once. There are two limits.
    First, the windows of each host must be merged before windows of several hosts are. Second, a device
    without a UUID can be recognized only by its label: it counts as the device that had this label in an
    earlier window of the group. If no earlier window of the group has such a device, it counts as the next
    device with this label. So the result may depend on where a group begins.
    """
    if not windows:
        raise ValueError("no windows to merge")
    by_host: dict[str, list[Window]] = {}
    for window in windows:
        by_host.setdefault(window.host, []).append(window)
    hosts = [_one_host(group) for group in by_host.values()]
    return hosts[0] if len(hosts) == 1 else fleet(hosts)


def _one_host(windows: Sequence[Window]) -> Window:
    if len(windows) == 1:
        return windows[0]
    names, devices = renamings(window.devices for window in windows)
    windows = [with_labels(window, called) for window, called in zip(windows, names, strict=True)]
    tenants: dict[str, Tenant] = {}
    for window in windows:
        tenants.update(window.tenants)
    last, calls = windows[-1], [window.calls for window in windows]
    return replace(
        last,
        start=windows[0].start,
        seconds=sum(window.seconds for window in windows),
        rows=merge_rows([window.rows for window in windows]),
        tenants=tenants,
        open_calls=add_open_calls([window.open_calls for window in windows]),
        devices=devices.sum(last.devices),
        evidence=added(window.evidence for window in windows),
        loss=add_losses([window.loss for window in windows]),
        coverage=replace(last.coverage, cost_percent=mean_cost(windows)),
        simulated=any(window.simulated for window in windows),
        kernels=added_kernels(window.kernels for window in windows),
        stacks=stacks_in_time([window.stacks for window in windows]),
        calls=CapturedCalls.later(lambda: calls),
    )


def with_labels(window: Window, called: Mapping[str, str]) -> Window:
    """Replaces labels of devices by ``called[label]`` in the rows, open calls, evidence, counts by CUDA
    kernel and captured calls of ``window``."""
    if not called:
        return window

    def other(records: Iterable[_Labelled]) -> tuple[_Labelled, ...]:
        return tuple(replace(one, device=called.get(one.device, one.device)) for one in records)

    keys = tuple(key._replace(device=called.get(key.device, key.device)) for key in window.rows.keys)
    evidence = replace(
        window.evidence,
        charges=tuple(
            one._replace(device=called.get(one.device, one.device)) for one in window.evidence.charges
        ),
        activity=other(window.evidence.activity),
        overlaps=other(window.evidence.overlaps),
    )
    kernels = [one._replace(device=called.get(one.device, one.device)) for one in window.kernels]
    calls = [one._replace(device=called.get(one.device, one.device)) for one in window.calls.kept]
    stacks = [one._replace(device=called.get(one.device, one.device)) for one in window.stacks]
    # Records that had different labels may have the same label now. Such records are added up.
    return replace(
        window,
        rows=_added([replace(window.rows, keys=keys)]) if keys else window.rows,
        open_calls=other(window.open_calls),
        evidence=added((evidence, Evidence(unknown=evidence.unknown))),
        kernels=added_kernels((kernels[:1], kernels[1:])),
        stacks=added_stacks([stacks]),
        calls=CapturedCalls(calls, window.calls.passed_over),
    )


def fleet(hosts: Sequence[Window]) -> Window:
    """Merges windows of different hosts as ``merge`` does; ``hosts`` has one window per host, at least one.

    Ids of tenants get the name of their host in front even if there is only one host, so that an id does not
    depend on whether there are other hosts.
    """
    parts = [window if BETWEEN_HOSTS in window.host else _with_host(window) for window in hosts]
    names = {name for window in parts for name in hosts_in(window.host)}
    tenants: dict[str, Tenant] = {}
    for window in parts:
        tenants.update(window.tenants)
    return Window(
        start=min(window.start for window in parts),
        seconds=max(window.seconds for window in parts),
        host=BETWEEN_HOSTS.join(sorted(names)),
        rows=merge_rows([window.rows for window in parts]),
        tenants=tenants,
        open_calls=tuple(call for window in parts for call in window.open_calls),
        devices=_all_devices([window.devices for window in parts]),
        system=None,
        loss=add_losses([window.loss for window in parts]),
        coverage=_all_coverage([window.coverage for window in parts]),
        simulated=any(window.simulated for window in parts),
        evidence=_all_evidence([window.evidence for window in parts]),
        chains=tuple(sorted((chain for window in parts for chain in window.chains), key=worst_first)),
        kernels=added_kernels(window.kernels for window in parts),
        stacks=added_stacks(window.stacks for window in parts),
        normals={key: found for window in parts for key, found in window.normals.items()},
        calls=added_calls(window.calls for window in parts),
        allocations=tuple(allocation for window in parts for allocation in window.allocations),
    )


def _with_host(window: Window) -> Window:
    """Puts the host in front of every tenant id of ``window``."""

    def full(tenant: str) -> str:
        return with_host(window.host, tenant)

    devices = window.devices
    return replace(
        window,
        rows=replace(
            window.rows, keys=tuple(key._replace(tenant=full(key.tenant)) for key in window.rows.keys)
        ),
        tenants={full(name): replace(tenant, id=full(tenant.id)) for name, tenant in window.tenants.items()},
        open_calls=tuple(replace(call, tenant=full(call.tenant)) for call in window.open_calls),
        devices=replace(
            devices,
            devices=tuple(
                replace(
                    device,
                    host=window.host,
                    processes=_with_tenants(device.processes, full),
                    instances=tuple(
                        replace(instance, processes=_with_tenants(instance.processes, full))
                        for instance in device.instances
                    ),
                )
                for device in devices.devices
            ),
        ),
        coverage=replace(
            window.coverage,
            missing=tuple(replace(gap, tenant=full(gap.tenant)) for gap in window.coverage.missing),
            scheduled=tuple(map(full, window.coverage.scheduled)),
        ),
        evidence=replace(
            with_tenants(window.evidence, full),
            network_ports=of_host(window.evidence.network_ports, window.host),
        ),
        chains=tuple(
            replace(
                chain,
                id=full(chain.id),
                tenant=full(chain.tenant),
                links=tuple(replace(link, tenant=full(link.tenant)) for link in chain.links),
                rows=tuple(key._replace(tenant=full(key.tenant)) for key in chain.rows),
            )
            for chain in window.chains
        ),
        normals={key._replace(tenant=full(key.tenant)): found for key, found in window.normals.items()},
        kernels=with_kernel_tenants(window.kernels, full),
        stacks=with_stack_tenants(window.stacks, full),
        calls=with_call_tenants(window.calls, full),
        allocations=tuple(
            replace(allocation, tenant=full(allocation.tenant)) for allocation in window.allocations
        ),
    )


def _with_tenants(
    holders: Iterable[DeviceProcess], renamed: Callable[[str], str]
) -> tuple[DeviceProcess, ...]:
    return tuple(replace(holder, tenant=renamed(holder.tenant)) for holder in holders)


def _all_devices(parts: Sequence[Devices]) -> Devices:
    devices = tuple(device for part in parts for device in part.devices)
    reasons = dict.fromkeys(part.unavailable for part in parts if part.unavailable)
    drivers = dict.fromkeys(part.driver for part in parts if part.driver)
    # GPUs of several hosts have equal labels: only UUIDs are unique.
    gone = tuple(replace(device, label=device.uuid) for part in parts for device in part.gone)
    return Devices(devices, "" if devices else "; ".join(reasons), ", ".join(drivers), gone)


def _all_evidence(parts: Sequence[Evidence]) -> Evidence:
    together = added(parts)
    return replace(
        together,
        events=tuple(sorted(together.events, key=lambda event: event.time)),
        unknown=tuple(dict.fromkeys(line for part in parts for line in part.unknown)),
    )


def _all_coverage(parts: Sequence[Coverage]) -> Coverage:
    traced = [part for part in parts if part.attached]
    return Coverage(
        attached=sum(part.attached for part in parts),
        functions=max(part.functions for part in parts),
        libraries=tuple(library for part in parts for library in part.libraries),
        missing=tuple(gap for part in parts for gap in part.missing),
        processes=sum(part.processes for part in parts),
        probe_ns=max(part.probe_ns for part in parts),
        cost_percent=max(part.cost_percent for part in parts),
        way=", ".join(sorted({way for part in traced for way in part.way.split(", ") if way})),
        tracing="; ".join(dict.fromkeys(part.tracing for part in parts if part.tracing)),
        scheduled=tuple(tenant for part in parts for tenant in part.scheduled),
        schedulable=tuple(uuid for part in parts for uuid in part.schedulable),
    )


def mean_cost(windows: Sequence[Window]) -> float:
    """Returns the mean cost of the probes in percent of one CPU, weighted by the lengths of ``windows``."""
    seconds = sum(window.seconds for window in windows)
    if seconds <= 0:
        return windows[-1].coverage.cost_percent
    return sum(window.coverage.cost_percent * window.seconds for window in windows) / seconds


def add_losses(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Adds up the losses of several windows by name."""
    sums: Counter[str] = Counter()
    for part in parts:
        sums.update(part)
    return dict(sums)


def longest_ended(calls: Iterable[OpenCall]) -> tuple[OpenCall, ...]:
    """Returns the calls of ended threads among ``calls``: at most ``MOST_ENDED``, the longest first."""
    return tuple(sorted((call for call in calls if call.ended), key=lambda call: -call.age_ns)[:MOST_ENDED])


def add_open_calls(parts: Sequence[Sequence[OpenCall]]) -> tuple[OpenCall, ...]:
    """Merges the open calls of consecutive windows: returns the calls that are still open in the last of
    ``parts``, followed by the calls of ended threads from all parts."""
    still_open = tuple(call for call in parts[-1] if not call.ended)
    return still_open + longest_ended(call for part in parts for call in part)


def merge_rows(parts: Sequence[Rows]) -> Rows:
    """Adds up the rows of ``parts`` by key, in order of first appearance.

    The result has splits only if every part with rows has them.
    """
    parts = [part for part in parts if len(part)]
    if not parts:
        return Rows.empty()
    if len(parts) == 1:
        return parts[0]
    if len(parts) > _AT_ONCE:
        # Adding hundreds of windows at once would need hundreds of MB.
        return merge_rows(
            [merge_rows(parts[first : first + _AT_ONCE]) for first in range(0, len(parts), _AT_ONCE)]
        )
    return _added(parts)


def _added(parts: Sequence[Rows]) -> Rows:
    """Adds up the rows of ``parts`` by key. No part may be empty. Rows of one part may have equal keys."""
    keys, target = _places(parts)
    n = len(keys)

    def add(columns: Sequence[U64]) -> U64:
        values = np.concatenate(columns)
        sums = np.zeros((n, *values.shape[1:]), np.uint64)
        np.add.at(sums, target, values)
        return sums

    longest = np.zeros(n, np.uint64)
    np.maximum.at(longest, target, np.concatenate([part.max_ns for part in parts]))
    splits = [part.split_ns for part in parts if part.split_ns is not None]
    return Rows(
        keys=keys,
        calls=add([part.calls for part in parts]),
        errors=add([part.errors for part in parts]),
        bytes=add([part.bytes for part in parts]),
        total_ns=add([part.total_ns for part in parts]),
        max_ns=longest,
        histograms=Histograms.concatenate([part.histograms for part in parts]).grouped(target, n),
        split_ns=add(splits) if len(splits) == len(parts) else None,
    )


def _places(parts: Sequence[Rows]) -> tuple[tuple[RowKey, ...], NDArray[np.int64]]:
    """Returns the union of the keys of all ``parts`` and, for every row of every part, the index of its key
    in this union."""
    place: dict[RowKey, int] = {}
    targets: list[NDArray[np.int64]] = []
    for number, part in enumerate(parts):
        if number and part.keys == parts[number - 1].keys:  # the usual case, and cheap to check
            targets.append(targets[-1])
            continue
        find = place.setdefault
        targets.append(np.fromiter((find(key, len(place)) for key in part.keys), np.int64, len(part)))
    return tuple(place), np.concatenate(targets)
