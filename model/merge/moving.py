"""Sums of evidence and of devices' counters over windows that come and go, kept up to date by what changes.

``model.evidence.added`` gives the same sums of windows that are all at hand.
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap
from stalltop.model.devices.device import DEVICE_COUNTERS, Device, Devices
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
"""Records of one kind that a sum without end keeps. Above that, those of processes that are gone are added up
under process id 0, and of what is still too much the largest are kept."""

_Record = BlockIo | TenantUse | ProcessUse | Rank | DeviceActivity | DeviceOverlap


def _tuple_of(names: Sequence[str]) -> Callable[[Any], tuple[int, ...]]:
    """Gives these attributes; of one alone, ``attrgetter`` gives no tuple."""
    get: Callable[[Any], Any] = operator.attrgetter(*names)
    return get if len(names) > 1 else lambda record: (get(record),)


_KEY_OF: Final[dict[type, Callable[[Any], Hashable]]] = {
    kind: operator.attrgetter(*names) for kind, names in KEYS.items()
}
_SUMS_OF: Final[dict[type, Callable[[Any], tuple[int, ...]]]] = {
    kind: _tuple_of(names) for kind, names in SUMS.items()
}
_Charges = dict[tuple[Any, ...], list[int]]
"""By all of a charge but ns and times: [ns, times, windows that have it]."""
_WEIGHT: Final[dict[type, Callable[[Any], int]]] = {
    BlockIo: lambda io: io.queued_ns + io.service_ns,
    TenantUse: lambda use: use.cpu_ns,
    ProcessUse: lambda use: use.cpu_ns,
    Rank: lambda rank: rank.collectives,
    DeviceActivity: lambda activity: activity.active_ns,
    DeviceOverlap: lambda overlap: overlap.ns,
}
"""What makes a record matter, where not all can be kept."""


@dataclass(slots=True)
class _Sum:
    """The records of one key."""

    latest: Any
    sums: list[int]
    windows: int = 1
    """How many windows have a record of this key."""
    largest: deque[tuple[int, int]] = field(default_factory=deque)
    """(number of a window, its ``max_ns``), falling: those that are, or may become, the largest one."""
    built: Any = None
    """The record, as long as nothing changes."""


class MovingEvidence:
    """The evidence of some windows that follow each other. Records come in no particular order."""

    def __init__(self) -> None:
        self._coming = 0
        self._leaving = 0
        """Numbers of the windows that come and leave next."""
        self._charges: _Charges = {}
        self._records: dict[type, dict[Hashable, _Sum]] = {kind: {} for kind in KEYS}
        self._events: deque[tuple[int, tuple[Event, ...]]] = deque()
        self._swap_in = self._swap_out = 0
        self._unknown: tuple[str, ...] = ()

    def add(self, evidence: Evidence) -> None:
        """Take in the evidence of the newest window."""
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
        """Take away the evidence of the oldest window, just as it was added."""
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
        """All of it as that of one window."""
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
        """Keep a sum that nothing leaves from growing without end; ``alive`` are the processes of now."""
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
            self._records[kind][key] = entry = _Sum(record, list(sums))
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

    def _fold(self, kind: type, gone: Sequence[_Sum]) -> None:
        """Add up the records of processes that are gone, and keep the largest of all."""
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


def _built(entry: _Sum) -> Any:
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
    """``charges`` with those of processes that are gone under process id 0, the largest ones."""
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


class MovingDevices:
    """What devices counted in some windows that follow each other, by device."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}
        """By device: its counters' sums, then in how many windows each was known."""
        self._xids: dict[str, Counter[int]] = {}

    def add(self, devices: Devices) -> None:
        """Take in those of the newest window."""
        self._change(devices, 1)

    def remove(self, devices: Devices) -> None:
        """Take away those of the oldest window."""
        self._change(devices, -1)

    def _change(self, devices: Devices, sign: int) -> None:
        n = len(DEVICE_COUNTERS)
        for device in devices.devices:
            counts = self._counts.setdefault(device.uuid, [0] * 2 * n)
            for at, name in enumerate(DEVICE_COUNTERS):
                value = getattr(device, name)
                if value is not None:
                    counts[at] += sign * value
                    counts[n + at] += sign
            if device.xids:
                xids = self._xids.setdefault(device.uuid, Counter())
                for xid in device.xids:
                    xids[xid] += sign

    def sum(self, last: Devices) -> Devices:
        """``last``, the devices at the end, with what they counted in all the windows."""
        return replace(last, devices=tuple([self._summed(device) for device in last.devices]))

    def _summed(self, device: Device) -> Device:
        n = len(DEVICE_COUNTERS)
        counts = self._counts.get(device.uuid, [0] * 2 * n)
        changes: dict[str, Any] = {
            name: counts[at] if counts[n + at] else None for at, name in enumerate(DEVICE_COUNTERS)
        }
        xids = tuple(sorted(+self._xids.get(device.uuid, Counter())))
        return replace(device, **changes, xids=xids)
