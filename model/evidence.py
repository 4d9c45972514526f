"""Evidence: what was measured besides the calls themselves, such as charges, quotas, I/O, reclaim and ranks.

Every record belongs to one window. Its fields are of two sorts: counts and times of events within the window,
which add up when windows are added (``added``), and gauges (a limit, a size), of which the sum takes the last
value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from stalltop.model import thread_evidence
from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap, overlap
from stalltop.model.thread_evidence import ThreadEvidence

Signed = Annotated[int, "may be below zero"]
"""An integer that is not a count."""

HOST_LAYER: Final = "host"
"""The layer of the two operations below."""
HOST_GAP: Final = "host gap"
"""Time of a thread between two of its outermost traced calls. It is an operation with a split, like
others."""
HOST_WORK: Final = "host work"
"""Time of a followed thread (one that wakes threads that make traced calls) between two of its wake-ups."""


class Charge(NamedTuple):
    """Time that one row (``tenant`` to ``operation``) lost off the CPU, charged to one other process."""

    tenant: str
    pid: int
    process: str
    layer: str
    operation: str
    """The outermost call, ``HOST_GAP`` or ``HOST_WORK``."""
    kind: str
    """A name of ``model.window.SPLITS``. runqueue: the culprit held the CPU; else: the culprit sent the
    wake-up."""
    culprit_tenant: str
    culprit_pid: int
    culprit_process: str
    ns: int
    times: int
    device: str = ""
    """Label of the row's device; '': all rows of that operation, whatever their device."""

    @property
    def nested(self) -> bool:
        """Always False: only outermost calls have charges."""
        return False

    @property
    def row(self) -> tuple[str, int, str, str, str, bool, str]:
        """Key of the row that lost the time: its ``RowKey`` without the host."""
        return (*self[:5], False, self.device)

    @property
    def key(self) -> tuple[Any, ...]:
        """Identifies the charge: all fields but ``ns`` and ``times``."""
        return (*self[:9], self.device)


@dataclass(frozen=True, slots=True)
class BlockIo:
    """Requests of one process to one block device, reads or writes."""

    tenant: str
    pid: int
    process: str
    """Process that submitted them; PID 0 if only the tenant's cgroup is known (writeback)."""
    device: str
    """Name of the block device, such as ``nvme0n1``."""
    write: bool
    requests: int
    bytes: int
    queued_ns: int
    """Time from submission until the device got the requests: cgroup throttling and the I/O scheduler's
    queue."""
    service_ns: int
    """Time from then until they were complete."""
    max_ns: int
    """Longest time of one request from submission to completion. A sum of windows takes the largest."""


@dataclass(frozen=True, slots=True)
class TenantUse:
    """Resources that a tenant's cgroup used, and how often its limits were hit."""

    tenant: str
    cpu_ns: int = 0
    periods: int = 0
    """CFS quota periods in which it ran."""
    throttled_periods: int = 0
    throttled_ns: int = 0
    reclaims: int = 0
    reclaim_ns: int = 0
    """Time its threads spent in direct reclaim, caused by the host's memory or by a cgroup limit."""
    oom_kills: int = 0
    refaults: int = 0
    """File pages that it read again soon after the Linux kernel had evicted them."""
    limit_hits: int = 0
    """Allocations that hit the memory limit of its cgroup or of an ancestor and had to reclaim first."""
    limit_kills: int = 0
    """Those of ``oom_kills`` that such a limit caused; the host ran out of memory for the others."""
    forks: int = 0
    execs: int = 0
    exits: int = 0
    """``forks``, ``execs`` and ``exits`` count processes, not threads."""
    cpu_quota: float | None = None
    """CPUs it may use, the lowest quota of its cgroup and the ancestors; None without a quota. This field
    and all below are gauges."""
    quota_cgroup: str = ""
    """Path of the cgroup that has this quota."""
    memory_used_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_cgroup: str = ""
    """Path of the cgroup that has this limit."""
    cpu_folder: str = ""
    """Directory whose files set the quota, such as ``/sys/fs/cgroup/cpu/docker/ab``: that of
    ``quota_cgroup``, or that of the tenant's own cgroup if it has no quota. '' if there is none."""
    cpu_version: int = 0
    """cgroup version of ``cpu_folder``, 1 or 2; 0 without a directory."""
    memory_folder: str = ""
    """Directory whose files set the memory limit, as ``cpu_folder`` for the quota."""
    memory_version: int = 0
    cpuset: str = ""
    """CPU list of its cgroup, such as ``0-3,8``; '' if unknown."""


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """Resources of one process that makes traced calls, is followed, is charged with time of others, or is a
    child of one that sleeps between its calls."""

    tenant: str
    pid: int
    process: str
    cpu_ns: int = 0
    minor_faults: int = 0
    major_faults: int = 0
    retransmits_v4: int = 0
    """TCP segments retransmitted over IPv4."""
    retransmits_v6: int = 0
    allocations: int = 0
    """Allocations of device memory by outermost calls that succeeded."""
    frees: int = 0
    allocated_bytes: int = 0
    freed_bytes: int = 0
    link: Signed = -1
    """Distance in the chain of wake-ups. 0: makes traced calls; 1: wakes such a process; 2, 3: wakes one of
    the distance before; -1: none of these. This field and all below are gauges."""
    threads: int = 0
    allowed_cpus: int = 0
    """Number of CPUs that its main thread may run on; 0 if unknown."""
    allowed: str = ""
    """These CPUs as a CPU list: ``0-3,8``."""
    nice: Signed = 0
    rss_bytes: int = 0
    swap_bytes: int = 0
    held_bytes: int | None = None
    """Device memory that it allocated while traced and has not freed."""
    held: int = 0
    """Number of these allocations."""
    parent_pid: int = 0


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of an NCCL communicator: which process it is, and how far it lags behind the other local
    ranks."""

    communicator: str
    """Hash of the communicator's unique id in hex, the same for all its ranks."""
    tenant: str
    pid: int
    process: str
    rank: int
    ranks: int
    """Number of ranks in the whole communicator."""
    local_ranks: int
    """Number of these that are traced on this host."""
    collectives: int = 0
    """Collectives that it entered in the window."""
    joined: int = 0
    """Number of these that were compared with the other local ranks."""
    late_ns: int = 0
    """Total time from the first local rank's entry to this one's, over the ``joined`` collectives."""
    last: int = 0
    """Number of ``joined`` collectives that it was the last to enter."""
    behind: int = 0
    """Collectives that the most advanced local rank has entered and this one has not. A gauge."""
    since_entry_ns: int = 0
    """Time since its last entry. A gauge."""
    entered: int = 0
    """Collectives entered since the communicator was created; the n-th of one rank is the n-th of all
    ranks, on any host. A gauge."""


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
"""Maximum number of events in a window; the newest are kept."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All evidence of a window."""

    charges: tuple[Charge, ...] = ()
    block_io: tuple[BlockIo, ...] = ()
    tenants: tuple[TenantUse, ...] = ()
    processes: tuple[ProcessUse, ...] = ()
    ranks: tuple[Rank, ...] = ()
    events: tuple[Event, ...] = ()
    swap_in_bytes: int = 0
    """Bytes that the whole host read from swap."""
    swap_out_bytes: int = 0
    unknown: tuple[str, ...] = ()
    """What could not be measured here and why, one line each. A gauge."""
    activity: tuple[DeviceActivity, ...] = ()
    """How long tenants had work on devices; empty if not measured."""
    overlaps: tuple[DeviceOverlap, ...] = ()
    """How long two tenants had work on one device at the same time; a pair without a record: never."""
    threads: ThreadEvidence = field(default_factory=ThreadEvidence)
    """Dropped once the window is diagnosed."""


_Record = TypeVar("_Record", BlockIo, TenantUse, ProcessUse, Rank, DeviceActivity, DeviceOverlap)

KEYS: Final[dict[type, tuple[str, ...]]] = {
    BlockIo: ("tenant", "pid", "process", "device", "write"),
    TenantUse: ("tenant",),
    ProcessUse: ("tenant", "pid", "process"),
    Rank: ("communicator", "tenant", "pid", "rank"),
    DeviceActivity: ("device", "tenant"),
    DeviceOverlap: ("device", "tenant", "other"),
}
"""Fields that identify a record, by class."""
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
"""Fields that add up, by class. All others are gauges, except ``BlockIo.max_ns``, which is a maximum."""


def added(parts: Iterable[Evidence]) -> Evidence:
    """Adds the evidence of consecutive windows, oldest first."""
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
        threads=thread_evidence.added(part.threads for part in parts),
    )


def tenants_of(evidence: Evidence) -> set[str]:
    """Returns the ids of all tenants that occur in ``evidence``."""
    found = {charge.culprit_tenant for charge in evidence.charges}
    found |= {overlap.other for overlap in evidence.overlaps}
    for name in RECORDS:
        found |= {record.tenant for record in getattr(evidence, name)}
    return found - {""}


def with_tenants(evidence: Evidence, renamed: Callable[[str], str]) -> Evidence:
    """Replaces each tenant id in ``evidence`` by ``renamed(id)``."""

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
"""Fields of ``Evidence`` that are lists of records, with the class of each."""
