"""Evidence: what was measured besides the calls themselves, such as charges, quotas, I/O, reclaim and ranks.

Every record belongs to one window. A record has two sorts of fields: counts and times of events within the
window, which add up when windows are added (``added``), and gauges (such as a limit or a size), for which a
sum of windows has the value of the last window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from stalltop.model import thread_evidence
from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap, overlap
from stalltop.model.network_ports import NetworkPort, added_ports
from stalltop.model.thread_evidence import ThreadEvidence

Signed = Annotated[int, "may be below zero"]
"""An integer that may be negative; all other integers are counts, sizes or times, which are at least 0."""

HOST_LAYER: Final = "host"
"""The layer of the operations ``HOST_GAP`` and ``HOST_WORK``."""
HOST_GAP: Final = "host gap"
"""Name of the operation that stands for the time of a thread between two of its outermost traced calls. This
time has a split, as calls have."""
HOST_WORK: Final = "host work"
"""Name of the operation that stands for the time of a followed thread from waking a thread to waking the
next. A followed thread wakes threads that make traced calls, or other followed threads."""
_SHOWN: Final = {HOST_GAP: "time between calls", HOST_WORK: "worker time"}


def shown_operation(operation: str) -> str:
    """Returns the name of ``operation`` for readers. JSON, SQL and files keep the short names of times that
    are no calls."""
    return _SHOWN.get(operation, operation)


def operation_names(operation: str) -> str:
    """Returns all names of ``operation``, for searching."""
    return f"{operation} {_SHOWN[operation]}" if operation in _SHOWN else operation


class Charge(NamedTuple):
    """Time that the threads of one row (``tenant`` to ``operation``) lost off the CPU because of one culprit.

    The culprit is a process, which may be the victim's own; or, with ``culprit_pid`` 0, the Linux kernel (an
    interrupt), or several culprits that took little time each (``culprit_process`` is ``others``).
    """

    tenant: str
    pid: int
    process: str
    layer: str
    operation: str
    """Operation that lost the time: that of an outermost call, ``HOST_GAP`` or ``HOST_WORK``."""
    kind: str
    """Part of the split that the time counts as (a name of ``model.window.SPLITS``). If it is ``runqueue``,
    the culprit held the CPU; in all other parts, the culprit sent the wake-up that ended the wait."""
    culprit_tenant: str
    culprit_pid: int
    culprit_process: str
    ns: int
    times: int
    device: str = ""
    """Label of the row's device; '' if the charge is for all rows of the operation, whatever their device."""

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
    """Name of the process that submitted the requests. ``pid`` is 0 if only the tenant's cgroup is known, as
    in writeback."""
    device: str
    """Name of the block device, such as ``nvme0n1``."""
    write: bool
    requests: int
    bytes: int
    queued_ns: int
    """Total time from the submission of each request until the block device got it: the time in cgroup
    throttling and in the I/O scheduler's queue."""
    service_ns: int
    """Total time from the moment when the block device got each request until the request was complete."""
    max_ns: int
    """Longest time of one request from submission to completion. A sum of windows has the largest
    ``max_ns``."""


@dataclass(frozen=True, slots=True)
class TenantUse:
    """Resources that a tenant's cgroup used, and how often the limits of the cgroup were hit."""

    tenant: str
    cpu_ns: int = 0
    periods: int = 0
    """Number of CFS quota periods in which the cgroup ran."""
    throttled_periods: int = 0
    throttled_ns: int = 0
    reclaims: int = 0
    reclaim_ns: int = 0
    """Time that the tenant's threads spent in direct reclaim, because the host's memory was short or a cgroup
    limit was reached."""
    oom_kills: int = 0
    refaults: int = 0
    """File pages that the tenant read again soon after the Linux kernel had evicted them."""
    limit_hits: int = 0
    """Memory allocations that reached the memory limit of the tenant's cgroup or of an ancestor, and had to
    reclaim memory first."""
    limit_kills: int = 0
    """Number of ``oom_kills`` for which a cgroup's memory limit is assumed to be the cause: an allocation
    failed at the limit in the same sample. With cgroup v1, it is enough that the limit was reached. For the
    other kills, the host is assumed to have run out of memory."""
    forks: int = 0
    execs: int = 0
    exits: int = 0
    """``forks``, ``execs`` and ``exits`` count processes, not threads."""
    cpu_quota: float | None = None
    """CPU quota, as a number of CPUs; None without a quota. Of the quotas of the tenant's cgroup and its
    ancestors, it is the one that throttled longest or, if none throttled, the lowest one. This field and all
    fields below are gauges."""
    quota_cgroup: str = ""
    """Path of the cgroup that sets ``cpu_quota``."""
    memory_used_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_cgroup: str = ""
    """Path of the cgroup that sets ``memory_limit_bytes``: of the tenant's cgroup and its ancestors, the one
    that is closest to its limit. ``memory_used_bytes`` is then the memory that this cgroup uses."""
    cpu_folder: str = ""
    """Directory whose files set the CPU quota, such as ``/sys/fs/cgroup/cpu/docker/ab``: the directory of
    ``quota_cgroup``, or of the tenant's own cgroup if there is no quota. '' if there is no such directory."""
    cpu_version: int = 0
    """cgroup version of ``cpu_folder``, 1 or 2; 0 if ``cpu_folder`` is ''."""
    memory_folder: str = ""
    """Directory whose files set the memory limit: the directory of ``memory_cgroup``, or of the tenant's own
    cgroup if there is no limit. '' if there is no such directory."""
    memory_version: int = 0
    cpuset: str = ""
    """CPU list of the tenant's cgroup, such as ``0-3,8``; '' if unknown."""


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """Resources that one process used. There are records for processes that make traced calls, have followed
    threads, are charged with time of others, or are children of a process that sleeps between its calls."""

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
    """Distance in the chain of wake-ups. 0: the process makes traced calls; n (up to 6): it wakes a process
    of distance n - 1; -1: none of these. This field and all fields below are gauges."""
    threads: int = 0
    allowed_cpus: int = 0
    """Number of CPUs that the main thread of the process may run on; 0 if unknown."""
    allowed: str = ""
    """CPUs that the main thread of the process may run on, as a CPU list such as ``0-3,8``; '' if
    unknown."""
    nice: Signed = 0
    rss_bytes: int = 0
    swap_bytes: int = 0
    held_bytes: int | None = None
    """Bytes of device memory that the process allocated while traced and has not freed; None if unknown."""
    held: int = 0
    """Number of allocations that make up ``held_bytes``."""
    parent_pid: int = 0


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of an NCCL communicator: its process, and how far it lags behind the other local ranks."""

    communicator: str
    """Hash of the communicator's unique id, in hex. All ranks of a communicator have equal hashes."""
    tenant: str
    pid: int
    process: str
    rank: int
    ranks: int
    """Number of ranks in the whole communicator."""
    local_ranks: int
    """Number of ranks of the communicator that are traced on this host."""
    collectives: int = 0
    """Number of collectives that this rank entered in the window."""
    joined: int = 0
    """Number of ``collectives`` whose entry times were compared with those of the other local ranks."""
    late_ns: int = 0
    """Time from the first local rank's entry to this rank's entry, added up over the ``joined``
    collectives."""
    last: int = 0
    """Number of ``joined`` collectives that this rank entered as the last of the local ranks."""
    behind: int = 0
    """Number of collectives that the most advanced local rank has entered and this rank has not. A gauge."""
    since_entry_ns: int = 0
    """Time in ns since this rank last entered a collective or, if it entered none, since it got its
    communicator. A gauge."""
    entered: int = 0
    """Number of collectives that this rank has entered since the communicator was created. The n-th
    collective of one rank is the n-th collective of all ranks, on any host. A gauge."""
    entries: str = ""
    """When it entered some collectives, the same on every host (``model.hosts.collectives``). A gauge."""
    nccl_hashes: str = ""
    """How NCCL names the communicator in its logs and in its RAS, such as ``0x6afe1cc17717e1f4 0xbf47…``: by
    NCCL 2.26 and later, and by earlier versions (``model.hosts.nccl_hash``); '' if it is not known."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at one moment."""

    time: float
    """Unix time in seconds."""
    kind: str
    """Kind of the event: ``oom_kill``, ``xid``, ``gpu_lost`` …"""
    tenant: str
    pid: int
    process: str
    text: str
    """What happened, in one line for a person."""


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
    """Bytes that the whole host read from swap within the window."""
    swap_out_bytes: int = 0
    unknown: tuple[str, ...] = ()
    """What could not be measured here and why, one line each. A gauge."""
    activity: tuple[DeviceActivity, ...] = ()
    """How long each tenant had work on each device; empty if not measured."""
    overlaps: tuple[DeviceOverlap, ...] = ()
    """How long two tenants had work on one device at the same time. Pairs of tenants without such time have
    no record."""
    network_ports: tuple[NetworkPort, ...] = ()
    """Network interfaces and RDMA ports of the host."""
    threads: ThreadEvidence = field(default_factory=ThreadEvidence)
    """Waits and work of single threads. Empty once the window is diagnosed, because only diagnosis needs
    it."""


_Record = TypeVar("_Record", BlockIo, TenantUse, ProcessUse, Rank, DeviceActivity, DeviceOverlap)

KEYS: Final[dict[type, tuple[str, ...]]] = {
    BlockIo: ("tenant", "pid", "process", "device", "write"),
    TenantUse: ("tenant",),
    ProcessUse: ("tenant", "pid", "process"),
    Rank: ("communicator", "tenant", "pid", "rank"),
    DeviceActivity: ("device", "tenant"),
    DeviceOverlap: ("device", "tenant", "other"),
}
"""By class of record: the fields that identify a record."""
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
"""By class of record: the fields that add up when windows are added. All other fields that do not identify a
record are gauges, except ``BlockIo.max_ns``, which is a maximum."""


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
        network_ports=added_ports(part.network_ports for part in parts),
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
    sums: dict[tuple[Any, ...], Charge] = {}
    for charge in charges:
        key = charge.key
        before = sums.get(key)
        if before is not None:
            figures = before.ns + charge.ns, before.times + charge.times
            charge = Charge._make((*key[:-1], *figures, key[-1]))
        sums[key] = charge
    return tuple(sums.values())


def _records(records: Iterable[_Record]) -> tuple[_Record, ...]:
    groups: dict[tuple[object, ...], list[_Record]] = {}
    for record in records:
        groups.setdefault(tuple([getattr(record, name) for name in KEYS[type(record)]]), []).append(record)
    return tuple([group[0] if len(group) == 1 else _sum(group) for group in groups.values()])


def _sum(group: Sequence[_Record]) -> _Record:
    """Adds up records of one key, oldest first."""
    last = group[-1]
    changes: dict[str, Any] = {
        name: sum([getattr(record, name) for record in group]) for name in SUMS[type(last)]
    }
    if isinstance(last, BlockIo):
        changes["max_ns"] = max(record.max_ns for record in group if isinstance(record, BlockIo))
    return replace(last, **changes)


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
"""Fields of ``Evidence`` that are lists of records about tenants, with the class of each."""
