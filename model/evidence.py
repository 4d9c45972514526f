"""What was measured besides the calls themselves: who took the time, and what the host did to its tenants.

Every record is of one window. Fields are of one of two sorts, and adding windows (``added``) follows them:
what happened within the window (``_ns``, counts) adds up; what is true at a moment (a limit, a size) is the
last one's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap, overlap

Signed = Annotated[int, "may be below zero"]
"""An integer that is no count."""

HOST_LAYER: Final = "host"
"""The layer of the two operations below."""
HOST_GAP: Final = "host gap"
"""The time of a thread between two of its outermost traced calls: an operation like others, with a split."""
HOST_WORK: Final = "host work"
"""The time of a followed thread (one that wakes those that call) between two of the wake-ups it gives."""

LONGEST_GAP_NS: Final = 60_000_000_000
"""A longer gap is a program that is idle: it is not counted."""


class Charge(NamedTuple):
    """Time off the CPU of one row (``tenant`` to ``operation``) that one other process is the cause of."""

    tenant: str
    pid: int
    process: str
    layer: str
    operation: str
    """The outermost call, ``HOST_GAP`` or ``HOST_WORK``."""
    kind: str
    """A name of ``model.window.SPLITS``. runqueue: the culprit had the CPU; else: it gave the wake-up."""
    culprit_tenant: str
    culprit_pid: int
    culprit_process: str
    ns: int
    times: int
    device: str = ""
    """Label of the device of its row; empty: of all rows of that operation, whatever their device."""

    @property
    def nested(self) -> bool:
        """Never: the calls that charges are of are the outermost ones."""
        return False

    @property
    def row(self) -> tuple[str, int, str, str, str, bool, str]:
        """The row that lost it: its ``RowKey`` without the host."""
        return (*self[:5], False, self.device)

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells charges apart: all of it but ``ns`` and ``times``."""
        return (*self[:9], self.device)


@dataclass(frozen=True, slots=True)
class BlockIo:
    """Requests of one process to one block device."""

    tenant: str
    pid: int
    process: str
    """Who submitted it; pid 0 with the tenant's id where only the cgroup is known (writeback)."""
    device: str
    """The kernel's name, such as ``nvme0n1``."""
    write: bool
    requests: int
    bytes: int
    queued_ns: int
    """From submission until the device got them: throttling by the cgroup, and the scheduler's queue."""
    service_ns: int
    """From there until they were done."""
    max_ns: int
    """The longest, from submission to its end. The largest, where windows add."""


@dataclass(frozen=True, slots=True)
class TenantUse:
    """What a tenant's cgroup used, and what it was denied."""

    tenant: str
    cpu_ns: int = 0
    periods: int = 0
    """Periods of the CFS quota in which it ran."""
    throttled_periods: int = 0
    throttled_ns: int = 0
    reclaims: int = 0
    reclaim_ns: int = 0
    """Time its threads spent in direct reclaim, of the host's or of its own limit."""
    oom_kills: int = 0
    refaults: int = 0
    """Pages of files that it read again soon after they had been dropped for lack of room."""
    limit_hits: int = 0
    """Allocations that met the limit of its cgroup or of an ancestor, and had to free memory first."""
    limit_kills: int = 0
    """Of ``oom_kills``, those for such a limit and not for want of memory in the whole host."""
    forks: int = 0
    execs: int = 0
    exits: int = 0
    """Processes, not threads."""
    cpu_quota: float | None = None
    """CPUs it may use; None without a quota. A moment, as all that follow. The tightest of its ancestors'."""
    quota_cgroup: str = ""
    """Path of the cgroup that has this quota."""
    memory_used_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_cgroup: str = ""
    """Path of the cgroup that has this limit."""
    cpu_folder: str = ""
    """Directory whose files set the quota, such as ``/sys/fs/cgroup/cpu/docker/ab``: of ``quota_cgroup``, or
    without a quota of the tenant's own cgroup. Empty where it has none."""
    cpu_version: int = 0
    """1 or 2, of cgroups: which files these are. 0 without a directory."""
    memory_folder: str = ""
    """The same for the limit of memory."""
    memory_version: int = 0
    cpuset: str = ""
    """CPUs that its cgroup may use, as the kernel lists them; empty where that is not known."""


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """One process that calls, is followed, or is charged with others' time."""

    tenant: str
    pid: int
    process: str
    cpu_ns: int = 0
    minor_faults: int = 0
    major_faults: int = 0
    retransmits_v4: int = 0
    """TCP segments sent again."""
    retransmits_v6: int = 0
    allocations: int = 0
    """Device memory, by outermost calls that succeeded."""
    frees: int = 0
    allocated_bytes: int = 0
    freed_bytes: int = 0
    link: Signed = -1
    """0: makes traced calls; 1: wakes such; 2, 3: wakes those; -1: neither. A moment, as all that follow."""
    threads: int = 0
    allowed_cpus: int = 0
    """CPUs that its main thread may run on; 0 where unknown."""
    allowed: str = ""
    """The same as the kernel lists them: ``0-3,8``."""
    nice: Signed = 0
    rss_bytes: int = 0
    swap_bytes: int = 0
    held_bytes: int | None = None
    """Device memory allocated and not freed, of what was allocated while it was traced."""
    held: int = 0
    """The same, allocations."""
    parent_pid: int = 0


@dataclass(frozen=True, slots=True)
class Rank:
    """One process's place in one NCCL communicator, and how it keeps up with the others on this host."""

    communicator: str
    """The unique id's hash in hex: the same for all its ranks."""
    tenant: str
    pid: int
    process: str
    rank: int
    ranks: int
    """In the whole communicator."""
    local_ranks: int
    """Of these traced on this host."""
    collectives: int = 0
    """Entered in the window."""
    joined: int = 0
    """Of these compared with the other local ranks."""
    late_ns: int = 0
    """Sum over the compared ones: how long after the first local rank this one entered."""
    last: int = 0
    """Of the compared ones, how often it was the last to enter."""
    behind: int = 0
    """Collectives that the most advanced local rank has entered and this one has not. A moment."""
    since_entry_ns: int = 0
    """Age of its last entry. A moment."""
    entered: int = 0
    """Collectives entered since it was made. The n-th of one rank is the n-th of all, on whatever host. A
    moment."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at one moment."""

    time: float
    """Unix time in seconds."""
    kind: str
    """``oom_kill``, ``xid``, ``gpu_lost`` …"""
    tenant: str
    pid: int
    process: str
    text: str
    """One line for a person."""


MOST_EVENTS: Final = 200
"""Events that a window keeps, the newest ones."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of it. What could not be measured is named in ``unknown``."""

    charges: tuple[Charge, ...] = ()
    block_io: tuple[BlockIo, ...] = ()
    tenants: tuple[TenantUse, ...] = ()
    processes: tuple[ProcessUse, ...] = ()
    ranks: tuple[Rank, ...] = ()
    events: tuple[Event, ...] = ()
    swap_in_bytes: int = 0
    """By the whole host."""
    swap_out_bytes: int = 0
    unknown: tuple[str, ...] = ()
    """What is not measured here and why, one line each. A moment."""
    activity: tuple[DeviceActivity, ...] = ()
    """When tenants had work on devices; none where that is not measured."""
    overlaps: tuple[DeviceOverlap, ...] = ()
    """When two tenants had work on one device at once; a pair without a record never had."""


_Record = TypeVar("_Record", BlockIo, TenantUse, ProcessUse, Rank, DeviceActivity, DeviceOverlap)

KEYS: Final[dict[type, tuple[str, ...]]] = {
    BlockIo: ("tenant", "pid", "process", "device", "write"),
    TenantUse: ("tenant",),
    ProcessUse: ("tenant", "pid", "process"),
    Rank: ("communicator", "tenant", "pid", "rank"),
    DeviceActivity: ("device", "tenant"),
    DeviceOverlap: ("device", "tenant", "other"),
}
"""What tells the records of each kind apart."""
SUMS: Final[dict[type, tuple[str, ...]]] = {
    BlockIo: ("requests", "bytes", "queued_ns", "service_ns"),
    TenantUse: (
        *("cpu_ns", "periods", "throttled_periods", "throttled_ns", "reclaims", "reclaim_ns"),
        *("oom_kills", "refaults", "limit_hits", "limit_kills", "forks", "execs", "exits"),
    ),
    ProcessUse: (
        *("cpu_ns", "minor_faults", "major_faults", "retransmits_v4", "retransmits_v6"),
        *("allocations", "frees", "allocated_bytes", "freed_bytes"),
    ),
    Rank: ("collectives", "joined", "late_ns", "last"),
    DeviceActivity: ("active_ns",),
    DeviceOverlap: ("ns",),
}
"""Their fields that add up. All others are of a moment, but for ``BlockIo.max_ns``."""


def added(parts: Iterable[Evidence]) -> Evidence:
    """Evidence of windows that follow each other, oldest first, as that of one window."""
    parts = tuple(parts)
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Evidence()
    return Evidence(
        charges=_charges(charge for part in parts for charge in part.charges),
        block_io=_records(record for part in parts for record in part.block_io),
        tenants=_records(record for part in parts for record in part.tenants),
        processes=_records(record for part in parts for record in part.processes),
        ranks=_records(record for part in parts for record in part.ranks),
        events=tuple(event for part in parts for event in part.events)[-MOST_EVENTS:],
        swap_in_bytes=sum(part.swap_in_bytes for part in parts),
        swap_out_bytes=sum(part.swap_out_bytes for part in parts),
        unknown=parts[-1].unknown,
        activity=_records(record for part in parts for record in part.activity),
        overlaps=_records(record for part in parts for record in part.overlaps),
    )


def tenants_of(evidence: Evidence) -> set[str]:
    """Ids of all tenants that ``evidence`` names."""
    found = {charge.culprit_tenant for charge in evidence.charges}
    found |= {overlap.other for overlap in evidence.overlaps}
    for name in RECORDS:
        found |= {record.tenant for record in getattr(evidence, name)}
    return found - {""}


def with_tenants(evidence: Evidence, renamed: Callable[[str], str]) -> Evidence:
    """``evidence`` with other ids of tenants."""

    def other(record: Any) -> Any:
        if isinstance(record, Charge):
            return record._replace(
                tenant=renamed(record.tenant), culprit_tenant=renamed(record.culprit_tenant)
            )
        if isinstance(record, DeviceOverlap):
            return overlap(record.device, renamed(record.tenant), renamed(record.other), record.ns)
        return replace(record, tenant=renamed(record.tenant))

    changes: dict[str, Any] = {name: tuple(map(other, getattr(evidence, name))) for name in RECORDS}
    return replace(evidence, **changes)


def _charges(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    sums: dict[tuple[object, ...], Charge] = {}
    for charge in charges:
        key = charge.key
        before = sums.get(key)
        sums[key] = (
            charge
            if before is None
            else charge._replace(ns=before.ns + charge.ns, times=before.times + charge.times)
        )
    return tuple(sums.values())


def _records(records: Iterable[_Record]) -> tuple[_Record, ...]:
    sums: dict[tuple[object, ...], _Record] = {}
    for record in records:
        kind = type(record)
        key = tuple(getattr(record, name) for name in KEYS[kind])
        before = sums.get(key)
        sums[key] = record if before is None else _sum(before, record)
    return tuple(sums.values())


def _sum(before: _Record, record: _Record) -> _Record:
    changes: dict[str, Any] = {
        name: getattr(before, name) + getattr(record, name) for name in SUMS[type(record)]
    }
    if isinstance(record, BlockIo) and isinstance(before, BlockIo):
        changes["max_ns"] = max(before.max_ns, record.max_ns)
    return replace(record, **changes)


RECORDS: Final[dict[str, type]] = {
    "charges": Charge,
    "block_io": BlockIo,
    "tenants": TenantUse,
    "processes": ProcessUse,
    "ranks": Rank,
    "events": Event,
    "activity": DeviceActivity,
    "overlaps": DeviceOverlap,
}
"""The lists of ``Evidence`` by name, and what each holds."""
