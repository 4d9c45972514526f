"""Sums of evidence and of devices over a sliding range of windows, updated incrementally.

``model.evidence.added`` computes the same sum of evidence from a list of windows.
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap
from stalltop.model.devices.device import DEVICE_COUNTERS, Device, DeviceProcess, Devices, GoneDevice
from stalltop.model.evidence import (
    KEYS,
    MOST_EVENTS,
    SUMS,
    BlockIo,
    Charge,
    Event,
    Evidence,
    ProcessUse,
    Rank,
    TenantUse,
)
from stalltop.model.network_ports import MovingPorts

MOST_RECORDS: Final = 4096
"""Maximum number of records of one class in a sum that covers all windows since the first. If there are more,
records of processes that the newest window does not have are added up under PID 0; if there are still too
many, only half of the maximum is kept: the largest records."""

_Record = BlockIo | TenantUse | ProcessUse | Rank | DeviceActivity | DeviceOverlap


def _tuple_of(names: Sequence[str]) -> Callable[[Any], tuple[int, ...]]:
    """Returns a function that returns the attributes ``names`` of an object as a tuple.
    ``operator.attrgetter`` returns no tuple if there is only one name."""
    get: Callable[[Any], Any] = operator.attrgetter(*names)
    return get if len(names) > 1 else lambda record: (get(record),)


_KEY_OF: Final[dict[type, Callable[[Any], Hashable]]] = {
    kind: operator.attrgetter(*names) for kind, names in KEYS.items()
}
_SUMS_OF: Final[dict[type, Callable[[Any], tuple[int, ...]]]] = {
    kind: _tuple_of(names) for kind, names in SUMS.items()
}
_Charges = dict[tuple[Any, ...], list[int]]
"""[ns, times, number of windows that have the charge] by ``Charge.key``."""
_WEIGHT: Final[dict[type, Callable[[Any], int]]] = {
    BlockIo: lambda io: io.queued_ns + io.service_ns,
    TenantUse: lambda use: use.cpu_ns,
    ProcessUse: lambda use: use.cpu_ns,
    Rank: lambda rank: rank.collectives,
    DeviceActivity: lambda activity: activity.active_ns,
    DeviceOverlap: lambda overlap: overlap.ns,
}
"""By class of record: the function that returns the size of a record. If not all records can be kept, the
records of the greatest size are kept."""


@dataclass(slots=True)
class _RecordSum:
    """Sum of the records of one key."""

    latest: Any
    sums: list[int]
    windows: int = 1
    """Number of windows that have a record of this key."""
    largest: deque[tuple[int, int]] = field(default_factory=deque)
    """Monotonic queue for the sliding maximum: (number of a window, ``max_ns`` in that window), with
    ``max_ns`` descending."""
    built: Any = None
    """Cached result of ``_built``; None after a change."""


class MovingEvidence:
    """Sum of the evidence of a sliding range of windows. The order of its records is not defined."""

    def __init__(self) -> None:
        self._coming = 0
        self._leaving = 0
        """Number of the next window to remove; ``_coming`` is the number of the next window to add."""
        self._charges: _Charges = {}
        self._records: dict[type, dict[Hashable, _RecordSum]] = {kind: {} for kind in KEYS}
        self._events: deque[tuple[int, tuple[Event, ...]]] = deque()
        self._ports = MovingPorts()
        self._swap_in = self._swap_out = 0
        self._unknown: tuple[str, ...] = ()

    def add(self, evidence: Evidence) -> None:
        """Adds the evidence of the newest window."""
        for charge in evidence.charges:
            key = charge.key
            sums = self._charges.get(key)
            if sums is None:
                self._charges[key] = [charge.ns, charge.times, 1]
            else:
                sums[0] += charge.ns
                sums[1] += charge.times
                sums[2] += 1
        for records in _lists(evidence):
            for record in records:
                self._add(record)
        self._ports.add(evidence.network_ports)
        if evidence.events:
            self._events.append((self._coming, evidence.events))
        self._swap_in += evidence.swap_in_bytes
        self._swap_out += evidence.swap_out_bytes
        self._unknown = evidence.unknown
        self._coming += 1

    def remove(self, evidence: Evidence) -> None:
        """Subtracts the evidence of the oldest window. ``evidence`` must equal the evidence that ``add`` got
        for that window."""
        for charge in evidence.charges:
            key = charge.key
            sums = self._charges[key]
            sums[0] -= charge.ns
            sums[1] -= charge.times
            sums[2] -= 1
            if not sums[2]:
                del self._charges[key]
        for records in _lists(evidence):
            for record in records:
                self._remove(record)
        self._ports.remove(evidence.network_ports)
        if self._events and self._events[0][0] == self._leaving:
            self._events.popleft()
        self._swap_in -= evidence.swap_in_bytes
        self._swap_out -= evidence.swap_out_bytes
        self._leaving += 1

    def sum(self) -> Evidence:
        """Returns the sum as the evidence of one window."""
        lists: dict[type, tuple[Any, ...]] = {
            kind: tuple([_built(entry) for entry in entries.values()])
            for kind, entries in self._records.items()
        }
        return Evidence(
            charges=tuple(
                map(
                    Charge._make,
                    [(*key[:-1], ns, times, key[-1]) for key, (ns, times, _) in self._charges.items()],
                )
            ),
            block_io=lists[BlockIo],
            tenants=lists[TenantUse],
            processes=lists[ProcessUse],
            ranks=lists[Rank],
            events=tuple([event for _, events in self._events for event in events][-MOST_EVENTS:]),
            swap_in_bytes=self._swap_in,
            swap_out_bytes=self._swap_out,
            unknown=self._unknown,
            activity=lists[DeviceActivity],
            overlaps=lists[DeviceOverlap],
            network_ports=self._ports.sum(),
        )

    def bound(self, alive: set[int]) -> None:
        """Limits the number of records of each class to ``MOST_RECORDS``, for a sum from which no window is
        removed. ``alive`` has the PIDs whose records are not added up under PID 0."""
        self._ports.bound()
        newer = sum(len(events) for _, events in self._events)
        while self._events and (newer := newer - len(self._events[0][1])) >= MOST_EVENTS:
            self._events.popleft()
        if len(self._charges) > MOST_RECORDS:
            self._charges = _largest_charges(self._charges, alive)
        for kind, entries in self._records.items():
            if len(entries) > MOST_RECORDS:
                gone = [entry for entry in entries.values() if getattr(entry.latest, "pid", 0) not in alive]
                self._fold(kind, gone)

    def _add(self, record: _Record) -> None:
        kind = type(record)
        key, sums = _KEY_OF[kind](record), _SUMS_OF[kind](record)
        entry = self._records[kind].get(key)
        if entry is None:
            self._records[kind][key] = entry = _RecordSum(record, list(sums))
        else:
            entry.latest, entry.built = record, None
            entry.sums = list(map(operator.add, entry.sums, sums))
            entry.windows += 1
        if isinstance(record, BlockIo):
            while entry.largest and entry.largest[-1][1] <= record.max_ns:
                entry.largest.pop()
            entry.largest.append((self._coming, record.max_ns))

    def _remove(self, record: _Record) -> None:
        kind = type(record)
        key = _KEY_OF[kind](record)
        entry = self._records[kind][key]
        entry.windows -= 1
        if not entry.windows:
            del self._records[kind][key]
            return
        entry.sums = list(map(operator.sub, entry.sums, _SUMS_OF[kind](record)))
        entry.built = None
        if entry.largest and entry.largest[0][0] == self._leaving:
            entry.largest.popleft()

    def _fold(self, kind: type, gone: Sequence[_RecordSum]) -> None:
        """Adds up the records ``gone``, those of processes that the newest window does not have, under PID 0.
        If there are still too many records of this class, keeps the largest."""
        entries = self._records[kind]
        for entry in gone:
            record = _built(entry)
            if getattr(record, "pid", 0):
                del entries[_KEY_OF[kind](record)]
                self._add(replace(record, pid=0))
        if len(entries) > MOST_RECORDS:
            kept = heapq.nlargest(
                MOST_RECORDS // 2, entries.items(), key=lambda item: _WEIGHT[kind](_built(item[1]))
            )
            self._records[kind] = dict(kept)


def _lists(evidence: Evidence) -> tuple[tuple[_Record, ...], ...]:
    return (
        *(evidence.block_io, evidence.tenants, evidence.processes, evidence.ranks),
        *(evidence.activity, evidence.overlaps),
    )


def _charge(key: tuple[Any, ...], ns: int, times: int) -> Charge:
    *others, device = key
    return Charge._make((*others, ns, times, device))


def _built(entry: _RecordSum) -> Any:
    if entry.windows == 1:
        return entry.latest
    if entry.built is None:
        kind = type(entry.latest)
        changes: dict[str, Any] = dict(zip(SUMS[kind], entry.sums, strict=True))
        if entry.largest:
            changes["max_ns"] = entry.largest[0][1]
        entry.built = replace(entry.latest, **changes)
    return entry.built


def _largest_charges(charges: _Charges, alive: set[int]) -> _Charges:
    """Adds up the charges under PID 0 in place of each victim and culprit that is not in ``alive``. If there
    are still more than half of ``MOST_RECORDS``, keeps the largest."""
    sums: _Charges = {}
    for key, (ns, times, windows) in charges.items():
        known = _charge(key, ns, times)
        folded = known._replace(
            pid=known.pid if known.pid in alive else 0,
            culprit_pid=known.culprit_pid if known.culprit_pid in alive else 0,
        ).key
        entry = sums.setdefault(folded, [0, 0, 0])
        entry[0] += ns
        entry[1] += times
        entry[2] += windows
    if len(sums) <= MOST_RECORDS // 2:
        return sums
    return dict(heapq.nlargest(MOST_RECORDS // 2, sums.items(), key=lambda item: item[1][0]))


@dataclass(slots=True)
class _SeenDevice:
    """Label and sums of the counters of one GPU or MIG device."""

    label: str = ""
    """Label of the device in the last window that has the device."""
    windows: int = 0
    """Number of windows that have the device."""
    sums: list[int] = field(default_factory=lambda: [0] * len(DEVICE_COUNTERS))
    known: list[int] = field(default_factory=lambda: [0] * len(DEVICE_COUNTERS))
    """For each of ``DEVICE_COUNTERS``: the number of windows in which its value was known."""
    xids: Counter[int] = field(default_factory=Counter)
    resident_ns: Counter[int] = field(default_factory=Counter)
    """Sums of ``DeviceProcess.resident_ns`` by PID. A PID is in it while it is in one of the windows."""
    resident_in: Counter[int] = field(default_factory=Counter)
    """Number of windows with a ``DeviceProcess.resident_ns``, by PID."""

    def count(self, entry: _DeviceEntry, sign: int) -> None:
        """Adds the counters, XIDs and times of processes of one window if ``sign`` is 1; subtracts them if it
        is -1."""
        _, _, values, xids, processes = entry
        self.windows += sign
        for at, value in enumerate(values):
            if value is not None:
                self.sums[at] += sign * value
                self.known[at] += sign
        for xid in xids:
            self.xids[xid] += sign
        for one in processes:
            if one.resident_ns is not None:
                self.resident_ns[one.pid] += sign * one.resident_ns
                self.resident_in[one.pid] += sign
                if not self.resident_in[one.pid]:
                    del self.resident_ns[one.pid], self.resident_in[one.pid]

    @property
    def all_xids(self) -> tuple[int, ...]:
        """The XIDs of all windows, ascending, each once."""
        return tuple(sorted(+self.xids))

    def counts(self) -> Iterator[tuple[str, int | None]]:
        """Yields (name, sum) of each counter; the sum is None if the counter is unknown in all windows."""
        for name, total, known in zip(DEVICE_COUNTERS, self.sums, self.known, strict=True):
            yield name, total if known else None


class MovingDevices:
    """Labels and sums of the counters of the devices of one host over a sliding range of windows."""

    def __init__(self) -> None:
        self._seen: dict[str, _SeenDevice] = {}
        """Devices by UUID, in the order in which they were last seen. All devices without a UUID share one
        entry."""
        self._names: dict[str, str] | None = {}
        """The result of ``names``; None if it must be computed again."""

    def add(self, devices: Devices) -> None:
        """Adds the devices of the newest window."""
        for entry in _devices_of(devices):
            uuid, label, *_ = entry
            seen = self._seen.pop(uuid, None) or _SeenDevice()
            self._seen[uuid] = seen
            seen.label = label
            if self._names is not None and self._names.get(uuid) != label and uuid:
                self._names = None
            seen.count(entry, 1)

    def remove(self, devices: Devices) -> None:
        """Subtracts the devices of the oldest window. ``devices`` must equal what ``add`` got for that
        window."""
        for entry in _devices_of(devices):
            uuid, *_ = entry
            seen = self._seen[uuid]
            seen.count(entry, -1)
            if not seen.windows:
                del self._seen[uuid]
                self._names = None

    def names(self) -> Mapping[str, str]:
        """Returns, by UUID, the name that each device has in the rows of the merged window.

        The name is the last label of the device, or its UUID if a device that was seen later has that label.
        """
        if self._names is None:
            owners = {seen.label: uuid for uuid, seen in self._seen.items() if uuid}
            self._names = {
                uuid: seen.label if owners[seen.label] == uuid else uuid
                for uuid, seen in self._seen.items()
                if uuid
            }
        return self._names

    def sum(self, last: Devices) -> Devices:
        """Returns ``last``, the devices of the last window, with counters summed over all windows; ``gone``
        has the devices of earlier windows that the last window lacks."""
        there = {uuid for uuid, *_ in _devices_of(replace(last, gone=()))}
        gone = [
            GoneDevice(
                uuid,
                seen.label,
                tuple((name, total) for name, total in seen.counts() if total is not None),
                seen.all_xids,
            )
            for uuid, seen in self._seen.items()
            if uuid and uuid not in there
        ]
        return replace(
            last, devices=tuple([self._summed(device) for device in last.devices]), gone=tuple(gone)
        )

    def _summed(self, device: Device) -> Device:
        seen = self._seen[device.uuid]
        changes: dict[str, Any] = dict(seen.counts())
        processes = tuple(
            [replace(one, resident_ns=seen.resident_ns.get(one.pid)) for one in device.processes]
        )
        return replace(device, **changes, xids=seen.all_xids, processes=processes)


def renamed(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Returns the devices whose names changed, as a map from the old to the new name. ``before`` and ``now``
    are earlier and later results of ``MovingDevices.names``."""
    if before is now:
        return {}
    return {name: now[uuid] for uuid, name in before.items() if now.get(uuid, name) != name}


def renamings(following: Iterable[Devices]) -> tuple[list[dict[str, str]], MovingDevices]:
    """Returns two results: for each of several consecutive windows, a map from the names of devices in this
    window to their names in the merged window; and the sums over all windows.

    ``following`` has the devices of each window. A device without a UUID counts as the device that had its
    label before.
    """
    devices = MovingDevices()
    names = []
    for each in following:
        devices.add(each)
        names.append(devices.names())
    return [renamed(before, names[-1]) for before in names], devices


_DeviceEntry = tuple[str, str, Sequence[int | None], tuple[int, ...], tuple[DeviceProcess, ...]]
"""(UUID, label, values of ``DEVICE_COUNTERS``, XIDs, processes) of one device in one window."""


def _devices_of(devices: Devices) -> Iterator[_DeviceEntry]:
    """Yields the GPUs and MIG devices of a window. Devices that are gone come first, then lost GPUs, then all
    other GPUs, so that a device that now has the label of a gone or lost device comes after that device."""
    for gone in devices.gone:
        counts = dict(gone.counts)
        yield gone.uuid, gone.label, [counts.get(name) for name in DEVICE_COUNTERS], gone.xids, ()
    for device in sorted(devices.devices, key=lambda device: not device.lost):
        values = [getattr(device, name) for name in DEVICE_COUNTERS]
        # GPUs of several hosts have equal labels: only UUIDs are unique.
        label = device.uuid if device.host else device.label
        yield device.uuid, label, values, device.xids, device.processes
        for part in device.instances:
            yield part.uuid, part.uuid if device.host else part.label, (), (), ()
