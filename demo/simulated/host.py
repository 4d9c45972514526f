"""Simulates what slows the tenants of the simulated host: how the time of calls, and of the gaps between
them, is split, and which tenant is charged.

Most of the time nothing is wrong. The timetable of a `Plot` (`demo.faults`) says which fault occurs when: a
tenant takes an inference server's CPUs; a trainer's data worker waits for a disk that another tenant loads; a
thread of the inference server waits for a lock that another process holds; one rank of a job arrives late;
the heat of a GPU throttles its clocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.demo.faults import Family, InjectedFault, Timetable
from stalltop.demo.simulated.habits import PEOPLE, Person
from stalltop.demo.simulated.network import data_server
from stalltop.model.devices.labels import label_of
from stalltop.model.evidence import (
    HOST_GAP,
    HOST_LAYER,
    HOST_WORK,
    BlockIo,
    Charge,
    Evidence,
    ProcessUse,
    Rank,
    TenantUse,
)
from stalltop.model.row_key import RowKey
from stalltop.model.thread_evidence import ThreadEvidence
from stalltop.model.window import SPLITS, U64

PERIOD_SECONDS: Final = 90.0
CPU_TAKEN: Final = (20.0, 40.0)
"""Part of each period in which the inference server lacks CPU time: its beginning and end, in seconds from
the start of the period."""
DISK_LOADED: Final = (60.0, 80.0)
"""Part of each period in which the trainer lacks data: its beginning and end, in seconds from the start of
the period."""
CPUS: Final = 32
DISK: Final = "nvme0n1"
_CHARGED: Final = 0.95
"""Share of each wait that is charged to a culprit. The rest is unattributed."""


@dataclass(frozen=True, slots=True)
class Plot:
    """What happens on the simulated host, and to how many tenants. Roles are given as indices of
    ``people``."""

    tenants: int
    gpus: int
    timetable: Timetable = field(default_factory=Timetable)
    """The faults, and when they occur."""
    people: tuple[Person, ...] = PEOPLE
    """Candidates for the tenants, of which the first ``tenants`` are used."""
    trainer: int | None = 0
    """The tenant that suffers from a loaded disk."""
    worker: bool = True
    """Whether the trainer has a data worker."""
    server: int | None = 1
    """The tenant that suffers from a lack of CPU time, and from a lock."""
    hog: tuple[int, str] = (2, "preprocess")
    """The tenant and the process that take CPUs."""
    copier: tuple[int, str] = (5, "rsync")
    """The tenant and the process that load the disk."""
    holder: tuple[int, str] = (1, "indexer")
    """The tenant and the process that hold a lock."""
    ranks: tuple[int, ...] = (0,)
    """The tenants whose processes are the ranks of one job; the second process is the one that is late."""
    restless: bool = False
    """Whether, in addition to the faults of the timetable, waits are sometimes longer, devices briefly reach
    their temperature limit, and a program is only partly traced."""
    hangs: bool = False
    """Whether a collective hangs now and then."""
    operations: int = 40
    """Number of operations of each process."""
    mps: bool = False
    """Whether the tenants share the devices through MPS, like pods that were given replicas of a device."""
    places: tuple[str, ...] = ()
    """Labels of the devices that the tenants use, in the order of the tenants; if empty, the processes are
    distributed over the devices by their PIDs."""
    profiles: tuple[str, ...] = ()
    """MIG profiles of the instances into which the first device is divided; none if it is not divided."""

    def label(self, number: int, pid: int) -> str:
        """Returns the label of the device that process ``pid`` of tenant number ``number`` uses."""
        return self.places[number % len(self.places)] if self.places else label_of(pid % self.gpus)


EVERYTHING: Final = Plot(
    tenants=10,
    gpus=2,
    timetable=Timetable((InjectedFault("cpu", *CPU_TAKEN), InjectedFault("disk", *DISK_LOADED))),
    restless=True,
    hangs=True,
)
LATE_NS: Final = 18_000_000
"""How long after the first rank the late rank enters each collective, ns."""


class Someone(NamedTuple):
    """A process, with the id of its tenant."""

    tenant: str
    pid: int
    process: str


@dataclass(frozen=True, slots=True)
class Cast:
    """Tenants and processes by their roles in the simulation. A role is None or '' if the host has no such
    tenant. ``at(family)`` returns a copy with only the disturbance of that family of faults."""

    trainer: str
    """Tenant id of the trainer."""
    worker: Someone | None
    """The trainer's data worker."""
    server: str
    """Tenant id of the inference server."""
    hog: Someone | None
    """The process that takes the server's CPUs."""
    copier: Someone | None
    """The process that loads the disk."""
    holder: Someone | None = None
    """The process that holds a lock for which the server waits."""
    ranks: tuple[str, ...] = ()
    """Tenant ids of the job whose ranks exchange data."""
    late_rank: bool = True
    """Whether the second rank arrives late."""
    hot: bool = True
    """Whether heat throttles the clocks of the first device."""

    @property
    def starved(self) -> bool:
        """Whether the programs on the first device lack CPU time, data or a lock."""
        return not (self.hog is None and self.copier is None and self.holder is None)

    def at(self, family: Family | None) -> Cast:
        """Returns the cast while a fault of ``family`` is active; None: while no fault is active."""
        return replace(
            self,
            hog=self.hog if family == "cpu" else None,
            copier=self.copier if family == "disk" else None,
            holder=self.holder if family == "lock" else None,
            late_rank=family == "rank",
            hot=family == "heat",
        )


def _shares(**shares: float) -> NDArray[np.float64]:
    """Returns a vector of the shares of the parts of a time, in the order of ``SPLITS``. Parts that
    ``shares`` does not name are 0. The part ``running`` is the remainder."""
    vector = np.array([shares.get(part, 0.0) for part in SPLITS])
    vector[SPLITS.index("running")] = 1.0 - vector.sum()
    return vector


_CALLS: Final = (
    ("Synchronize", _shares(gpu=0.96, runqueue=0.002)),
    ("Async", _shares(runqueue=0.002)),
    ("Launch", _shares(runqueue=0.002)),
    ("Memcpy", _shares(gpu=0.15, runqueue=0.003)),
    ("Alloc", _shares(gpu=0.5, lock=0.02)),
    ("Free", _shares(gpu=0.6, lock=0.02)),
    ("Load", _shares(disk=0.05, memory=0.02)),
    ("", _shares(runqueue=0.002)),
)
"""How the time of calls is split: (part of an operation's name, shares). The first entry that matches the
name applies."""
_GAPS: Final = {
    "trainer": _shares(runqueue=0.004, process=0.01),
    "alone": _shares(runqueue=0.004, sleep=0.3),
    "server": _shares(runqueue=0.004, network=0.8),
    "other": _shares(runqueue=0.005, network=0.9),
}
_CALL_WITHOUT_CPU: Final = 0.12
"""Share of the time of the server's calls that is spent in the run queue while the hog takes the CPUs."""
_GAP_WITHOUT_CPU: Final = _shares(runqueue=0.55, network=0.15)
_GAP_WITHOUT_LOCK: Final = _shares(runqueue=0.005, network=0.15, lock=0.6)
_GAP_WITHOUT_DATA: Final = _shares(runqueue=0.01, process=0.85)
_WORK: Final = _shares(disk=0.06, process=0.5, runqueue=0.01)
"""How the time of a data worker is split while the worker keeps up with the trainer. For half of the time,
the worker waits until the trainer takes a batch."""
_WORK_WITHOUT_DISK: Final = _shares(disk=0.9, process=0.01, runqueue=0.005)

RATE_WITHOUT_CPU: Final = 0.6
RATE_WITHOUT_DATA: Final = 0.45
RATE_WITHOUT_LOCK: Final = 0.5
RATE_WITH_LATE_RANK: Final = 0.6


def shares(key: RowKey, cast: Cast) -> NDArray[np.float64]:
    """Returns how the time of row ``key`` is split: a vector of shares in the order of ``SPLITS``."""
    if key.operation == HOST_WORK:
        return _WORK_WITHOUT_DISK if cast.copier else _WORK
    if key.operation == HOST_GAP:
        if key.tenant == cast.trainer:
            if cast.worker is None:
                return _GAPS["alone"]
            return _GAP_WITHOUT_DATA if cast.copier else _GAPS["trainer"]
        if key.tenant == cast.server:
            if cast.holder:
                return _GAP_WITHOUT_LOCK
            return _GAP_WITHOUT_CPU if cast.hog else _GAPS["server"]
        return _GAPS["other"]
    found = next(found for part, found in _CALLS if part in key.operation)
    if cast.hog and key.tenant == cast.server:
        found = found * (1.0 - _CALL_WITHOUT_CPU)
        found[SPLITS.index("runqueue")] += _CALL_WITHOUT_CPU
    return found


def rate(tenant: str, cast: Cast) -> float:
    """Returns the rate at which ``tenant`` works now, as a share of its usual rate: less than 1 while it
    lacks CPU time, a lock, data or another rank."""
    if tenant == cast.server and (cast.hog or cast.holder):
        return RATE_WITHOUT_CPU if cast.hog else RATE_WITHOUT_LOCK
    if cast.late_rank and tenant in cast.ranks:
        return RATE_WITH_LATE_RANK
    return RATE_WITHOUT_DATA if cast.copier and tenant == cast.trainer else 1.0


def divided(total_ns: U64, shares: NDArray[np.float64]) -> U64:
    """Returns ``total_ns`` of each row, split into parts in proportion to ``shares``, shape (n, len(SPLITS)).
    The part ``running`` takes the rounding errors. So the parts of a row add up to its total."""
    parts = np.floor(total_ns[:, None].astype(np.float64) * shares).astype(np.uint64)
    running = SPLITS.index("running")
    parts[:, running] = 0
    parts[:, running] = total_ns - parts.sum(axis=1, dtype=np.uint64)
    return parts


def gap_key(like: RowKey) -> RowKey:
    """Returns the key of the row that counts the time between calls, for the process of row ``like``."""
    return like._replace(layer=HOST_LAYER, operation=HOST_GAP, nested=False)


def work_key(host: str, worker: Someone) -> RowKey:
    """Returns the key of the row that counts the host work of ``worker``, the data worker that wakes the
    trainer."""
    return RowKey(host, worker.tenant, worker.pid, worker.process, HOST_LAYER, HOST_WORK)


def evidence(keys: Sequence[RowKey], calls: U64, split_ns: U64, seconds: float, cast: Cast) -> Evidence:
    """Returns what is measured in addition to calls (charges, I/O, CPU use, ranks). It is derived from the
    rows ``keys``, their ``calls`` and their ``split_ns``."""
    processes = _processes(keys, split_ns, seconds, cast)
    cpu_ns: Counter[str] = Counter()
    for process in processes:
        cpu_ns[process.tenant] += process.cpu_ns
    ranks = tuple(_ranks(keys, calls, cast))
    late = next((rank.pid for rank in ranks if cast.late_rank and rank.rank == 1), 0)
    return Evidence(
        charges=tuple(_charges(keys, split_ns, cast)),
        block_io=tuple(_block_io(keys, split_ns, seconds, cast)),
        tenants=tuple(
            TenantUse(tenant, cpu_ns=ns, memory_used_bytes=24 << 30, memory_limit_bytes=64 << 30)
            for tenant, ns in cpu_ns.items()
        ),
        processes=tuple(processes),
        ranks=ranks,
        threads=ThreadEvidence(servers=(data_server(late, seconds),) if late else ()),
    )


def _charges(keys: Sequence[RowKey], split_ns: U64, cast: Cast) -> Iterator[Charge]:
    trainer = next((key for key in keys if key.tenant == cast.trainer), None)
    for key, parts in zip(keys, split_ns, strict=True):
        if key.nested:
            continue
        if cast.hog and key.tenant == cast.server:
            part, culprit, times = "runqueue", cast.hog, 200
        elif cast.holder and key.tenant == cast.server and key.operation == HOST_GAP:
            part, culprit, times = "lock", cast.holder, 80
        elif key.operation == HOST_WORK and trainer is not None:
            part, culprit, times = "process", Someone(trainer.tenant, trainer.pid, trainer.process), 20
        elif cast.worker and key.tenant == cast.trainer and key.operation == HOST_GAP:
            part, culprit, times = "process", cast.worker, 20
        else:
            continue
        whose = key.tenant, key.pid, key.process, key.layer, key.operation
        if ns := int(int(parts[SPLITS.index(part)]) * _CHARGED):
            yield Charge(*whose, part, *culprit, ns, times, key.device)


def _block_io(keys: Sequence[RowKey], split_ns: U64, seconds: float, cast: Cast) -> Iterator[BlockIo]:
    """Yields block I/O. The requests of the data worker together take as long as its row waits for the disk.
    The requests of the copier, while it is active, keep the disk busy."""

    def requests(who: Someone, per_s: float, size: int, each_ns: int, *, write: bool = False) -> BlockIo:
        count = max(int(per_s * seconds), 1)
        queued_ns = each_ns // 8
        waits = count * queued_ns, count * (each_ns - queued_ns), 4 * each_ns
        return BlockIo(*who, DISK, write, count, count * size, *waits)

    if cast.worker is None:
        return
    work = next(parts for key, parts in zip(keys, split_ns, strict=True) if key.operation == HOST_WORK)
    per_s = 120.0 if cast.copier else 400.0
    waited_ns = int(work[SPLITS.index("disk")]) / seconds
    yield requests(cast.worker, per_s, 256 << 10, int(waited_ns / per_s))
    if cast.copier:
        yield requests(cast.copier, 5200.0, 512 << 10, 6_100_000)
        yield requests(cast.copier, 900.0, 1 << 20, 7_400_000, write=True)


def _processes(keys: Sequence[RowKey], split_ns: U64, seconds: float, cast: Cast) -> list[ProcessUse]:
    cpu_ns: Counter[Someone] = Counter()
    for key, parts in zip(keys, split_ns, strict=True):
        if not key.nested:
            cpu_ns[Someone(key.tenant, key.pid, key.process)] += int(parts[SPLITS.index("running")])
    found = [
        ProcessUse(
            *who,
            cpu_ns=ns,
            minor_faults=int(40 * seconds),
            threads=8,
            rss_bytes=6 << 30,
            link=int(who == cast.worker),
            held_bytes=None if who == cast.worker else 20 << 30,
            held=0 if who == cast.worker else 900,
        )
        for who, ns in cpu_ns.items()
    ]
    if cast.hog:
        found.append(ProcessUse(*cast.hog, cpu_ns=int(28e9 * seconds), threads=46, rss_bytes=2 << 30))
    if cast.holder:
        found.append(ProcessUse(*cast.holder, cpu_ns=int(2e8 * seconds), threads=2, rss_bytes=1 << 30))
    if cast.copier:
        found.append(ProcessUse(*cast.copier, cpu_ns=int(1.1e9 * seconds), threads=9, rss_bytes=2 << 30))
    return [replace(process, allowed_cpus=CPUS, allowed=f"0-{CPUS - 1}") for process in found]


def _ranks(keys: Sequence[RowKey], calls: U64, cast: Cast) -> Iterator[Rank]:
    """Yields the processes of the job as the ranks of one communicator. All ranks have joined equally many
    collectives."""
    entered = [
        (key, int(count))
        for key, count in zip(keys, calls, strict=True)
        if key.tenant in cast.ranks and key.operation == "ncclAllReduce" and count
    ]
    joined = min(count for _, count in entered) if len(entered) > 1 else 0
    for rank, (key, count) in enumerate(entered):
        late = cast.late_rank and rank == 1
        yield Rank(
            communicator="51e0a7b3c4d2f901",
            tenant=key.tenant,
            pid=key.pid,
            process=key.process,
            rank=rank,
            ranks=len(entered),
            local_ranks=len(entered),
            collectives=count,
            joined=joined,
            late_ns=joined * (LATE_NS if late else 21_000 if rank % 2 else 17_000),
            last=joined * late if cast.late_rank else joined // 2,
            since_entry_ns=4_000_000,
        )
