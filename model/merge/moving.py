"""Sums of evidence and of devices over a sliding range of windows, updated incrementally.

``model.evidence.added`` computes the same sums from a list of windows.
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap
from stalltop.model.devices.device import DEVICE_COUNTERS, Device, Devices, GoneDevice
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

MOST_RECORDS: Final = 4096
"""Maximum number of records of one class in a sum since the first window. Above that, records of ended
processes are added up under PID 0; if there are still too many, the largest are kept."""

_Record = BlockIo | TenantUse | ProcessUse | Rank | DeviceActivity | DeviceOverlap


def _tuple_of(names: Sequence[str]) -> Callable[[Any], tuple[int, ...]]:
    """Returns a function that returns these attributes as a tuple, also if there is one only."""
    get: Callable[[Any], Any] = operator.attrgetter(*names)
    return get if len(names) > 1 else lambda record: (get(record),)


_KEY_OF: Final[dict[type, Callable[[Any], Hashable]]] = {
    kind: operator.attrgetter(*names) for kind, names in KEYS.items()
}
_SUMS_OF: Final[dict[type, Callable[[Any], tuple[int, ...]]]] = {
    kind: _tuple_of(names) for kind, names in SUMS.items()
}
_Charges = dict[tuple[Any, ...], list[int]]
"""[ns, times, number of windows that have it] by ``Charge.key``."""
_WEIGHT: Final[dict[type, Callable[[Any], int]]] = {
    BlockIo: lambda io: io.queued_ns + io.service_ns,
    TenantUse: lambda use: use.cpu_ns,
    ProcessUse: lambda use: use.cpu_ns,
    Rank: lambda rank: rank.collectives,
    DeviceActivity: lambda activity: activity.active_ns,
    DeviceOverlap: lambda overlap: overlap.ns,
}
"""Size of a record, which decides if not all can be kept."""


@dataclass(slots=True)
class _RecordSum:
    """Sum of the records of one key."""

    latest: Any
    sums: list[int]
    windows: int = 1
    """Number of windows that have a record of this key."""
    largest: deque[tuple[int, int]] = field(default_factory=deque)
    """Monotonic queue for the sliding maximum: (number of a window, its ``max_ns``), values descending."""
    built: Any = None
    """Cached record; None after a change."""


class MovingEvidence:
    """Sum of the evidence of a sliding range of windows. The order of its records is not defined."""

    def __init__(self) -> None:
        self._coming = 0
        self._leaving = 0
        """Numbers of the next window to add and of the next one to remove."""
        self._charges: _Charges = {}
        self._records: dict[type, dict[Hashable, _RecordSum]] = {kind: {} for kind in KEYS}
        self._events: deque[tuple[int, tuple[Event, ...]]] = deque()
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
        if evidence.events:
            self._events.append((self._coming, evidence.events))
        self._swap_in += evidence.swap_in_bytes
        self._swap_out += evidence.swap_out_bytes
        self._unknown = evidence.unknown
        self._coming += 1

    def remove(self, evidence: Evidence) -> None:
        """Subtracts the evidence of the oldest window, which must equal what was added."""
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
            charges=tuple([_charge(key, ns, times) for key, (ns, times, _) in self._charges.items()]),
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
        )

    def bound(self, alive: set[int]) -> None:
        """Limits the size of a sum from which nothing is removed (``MOST_RECORDS``); ``alive``: PIDs still
        running."""
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
        """Adds up the records of ended processes under PID 0; keeps the largest records if there are too
        many."""
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
    """Adds up charges of ended processes under PID 0, and keeps the largest."""
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
    """Its label in the last window that has it."""
    windows: int = 0
    """Number of windows that have it."""
    sums: list[int] = field(default_factory=lambda: [0] * len(DEVICE_COUNTERS))
    known: list[int] = field(default_factory=lambda: [0] * len(DEVICE_COUNTERS))
    """Number of windows in which each counter was known."""
    xids: Counter[int] = field(default_factory=Counter)

    def count(self, values: Sequence[int | None], xids: Iterable[int], sign: int) -> None:
        """Adds the counters of one window, or subtracts them if ``sign`` is -1."""
        self.windows += sign
        for at, value in enumerate(values):
            if value is not None:
                self.sums[at] += sign * value
                self.known[at] += sign
        for xid in xids:
            self.xids[xid] += sign

    @property
    def all_xids(self) -> tuple[int, ...]:
        """The Xids of all windows, ascending."""
        return tuple(sorted(+self.xids))

    def counts(self) -> Iterator[tuple[str, int | None]]:
        """Yields the field and the sum of each counter; the sum is None if it is known in no window."""
        for name, total, known in zip(DEVICE_COUNTERS, self.sums, self.known, strict=True):
            yield name, total if known else None


class MovingDevices:
    """Labels and sums of the counters of the devices of one host over a sliding range of windows."""

    def __init__(self) -> None:
        self._seen: dict[str, _SeenDevice] = {}
        """By UUID, in the order in which they were last seen. Devices without a UUID share one entry."""
        self._names: dict[str, str] | None = {}
        """The result of ``names``; None if it must be computed again."""

    def add(self, devices: Devices) -> None:
        """Adds the devices of the newest window."""
        for uuid, label, values, xids in _devices_of(devices):
            seen = self._seen.pop(uuid, None) or _SeenDevice()
            self._seen[uuid] = seen
            seen.label = label
            if self._names is not None and self._names.get(uuid) != label and uuid:
                self._names = None
            seen.count(values, xids, 1)

    def remove(self, devices: Devices) -> None:
        """Subtracts the devices of the oldest window."""
        for uuid, _, values, xids in _devices_of(devices):
            seen = self._seen[uuid]
            seen.count(values, xids, -1)
            if not seen.windows:
                del self._seen[uuid]
                self._names = None

    def names(self) -> Mapping[str, str]:
        """Returns the name of each device in rows of the merged window, by UUID.

        The name is its last label, or its UUID if a device that was seen later has this label.
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
        """Returns ``last``, the devices of the last window, with counters summed over all windows, and with
        the devices that are gone."""
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
        return replace(device, **changes, xids=seen.all_xids)


def renamed(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Returns the new name of each device whose name changes, by its old one; both maps are ``names()``."""
    if before is now:
        return {}
    return {name: now[uuid] for uuid, name in before.items() if now.get(uuid, name) != name}


def renamings(following: Iterable[Devices]) -> tuple[list[dict[str, str]], MovingDevices]:
    """Returns the sums, and for each of consecutive windows the map from its names to those of the last one.

    ``following`` are the devices of the windows. A label without a UUID stands for the device that had it
    before.
    """
    devices = MovingDevices()
    names = []
    for each in following:
        devices.add(each)
        names.append(devices.names())
    return [renamed(before, names[-1]) for before in names], devices


_DeviceEntry = tuple[str, str, Sequence[int | None], tuple[int, ...]]
"""UUID, label, values of ``DEVICE_COUNTERS`` and Xids."""


def _devices_of(devices: Devices) -> Iterator[_DeviceEntry]:
    """Yields the GPUs and MIG devices of a window: those that are gone first, and a lost GPU before the GPU
    that has its label."""
    for gone in devices.gone:
        counts = dict(gone.counts)
        yield gone.uuid, gone.label, [counts.get(name) for name in DEVICE_COUNTERS], gone.xids
    for device in sorted(devices.devices, key=lambda device: not device.lost):
        values = [getattr(device, name) for name in DEVICE_COUNTERS]
        # Labels of several hosts are alike.
        yield device.uuid, device.uuid if device.host else device.label, values, device.xids
        for part in device.instances:
            yield part.uuid, part.uuid if device.host else part.label, (), ()
