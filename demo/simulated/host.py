"""Simulates what slows the tenants of the simulated host: into which causes the time of calls, and of the
gaps between them, is split, and which tenant is charged.

Most of the time nothing is wrong. In one part of every period, a tenant takes an inference server's CPUs. In
another part, a trainer's data worker waits for a disk that a third tenant loads. A `Plot` says which of these
problems occur. In some plots, one of the trainer's ranks also comes late all the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.demo.simulated.habits import PEOPLE, PODS, Person
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
    """Defines what happens on the simulated host, and how many tenants it has."""

    tenants: int
    gpus: int
    cpu: bool = False
    """Whether a tenant sometimes takes another tenant's CPUs."""
    disk: bool = False
    """Whether a tenant sometimes loads a disk."""
    late_rank: bool = False
    """Whether the second rank of the trainer comes late."""
    people: tuple[Person, ...] = PEOPLE
    """Candidates for the tenants. The first ``tenants`` of them are used; the first one is the trainer."""
    mps: bool = False
    """Whether the tenants share the devices through MPS, like pods that were given replicas of a device."""


EVERYTHING: Final = Plot(tenants=10, gpus=2, cpu=True, disk=True)
PLOTS: Final = {
    "trio": Plot(tenants=3, gpus=1, cpu=True),
    "noisy-neighbour": Plot(tenants=3, gpus=1, cpu=True),
    "slow-disk": Plot(tenants=6, gpus=1, disk=True),
    "straggler": Plot(tenants=1, gpus=2, late_rank=True),
    "mps": Plot(tenants=4, gpus=1, people=PODS, mps=True),
}
"""By name of a scenario of `demo.scenario`: the plot of its simulation."""
LATE_NS: Final = 18_000_000
"""How long after the first rank the late rank enters each collective, ns."""


class Someone(NamedTuple):
    """A process, with the id of its tenant."""

    tenant: str
    pid: int
    process: str


@dataclass(frozen=True, slots=True)
class Cast:
    """The tenants and processes that have a role in the simulation. ``server``, ``hog`` and ``copier`` are
    None if the host has too few tenants. ``hog`` and ``copier`` are also None while they disturb no
    tenant."""

    trainer: str
    """Tenant id of the trainer."""
    worker: Someone
    """The trainer's data worker."""
    server: str | None
    """Tenant id of the inference server."""
    hog: Someone | None
    """The process that takes the server's CPUs."""
    copier: Someone | None
    """The process that loads the disk."""
    late_rank: bool = False
    """Whether the second rank of the trainer comes late."""

    def at(self, age: float) -> Cast:
        """Returns the cast ``age`` seconds after the start: ``hog`` and ``copier`` are None outside
        ``CPU_TAKEN`` and ``DISK_LOADED``."""
        within = age % PERIOD_SECONDS
        hog = self.hog if CPU_TAKEN[0] <= within < CPU_TAKEN[1] else None
        copier = self.copier if DISK_LOADED[0] <= within < DISK_LOADED[1] else None
        return replace(self, hog=hog, copier=copier)


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
"""How the time of calls is split. Each entry has a piece of an operation's name, and the shares. The first
entry whose piece is in the name counts."""
_GAPS: Final = {
    "trainer": _shares(runqueue=0.004, process=0.01),
    "server": _shares(runqueue=0.004, network=0.8),
    "other": _shares(runqueue=0.005, network=0.9),
}
_CALL_WITHOUT_CPU: Final = 0.12
"""Share of the time of the server's calls that is spent in the run queue while the hog takes the CPUs."""
_GAP_WITHOUT_CPU: Final = _shares(runqueue=0.55, network=0.15)
_GAP_WITHOUT_DATA: Final = _shares(runqueue=0.01, process=0.85)
_WORK: Final = _shares(disk=0.06, process=0.5, runqueue=0.01)
"""How the time of a data worker is split while the worker keeps up with the trainer. Most of the time, it
waits until the trainer takes a batch."""
_WORK_WITHOUT_DISK: Final = _shares(disk=0.9, process=0.01, runqueue=0.005)

RATE_WITHOUT_CPU: Final = 0.6
RATE_WITHOUT_DATA: Final = 0.45


def shares(key: RowKey, cast: Cast) -> NDArray[np.float64]:
    """Returns how the time of row ``key`` is split: a vector of shares in the order of ``SPLITS``."""
    if key.operation == HOST_WORK:
        return _WORK_WITHOUT_DISK if cast.copier else _WORK
    if key.operation == HOST_GAP:
        if key.tenant == cast.trainer:
            return _GAP_WITHOUT_DATA if cast.copier else _GAPS["trainer"]
        if key.tenant == cast.server:
            return _GAP_WITHOUT_CPU if cast.hog else _GAPS["server"]
        return _GAPS["other"]
    found = next(found for part, found in _CALLS if part in key.operation)
    if cast.hog and key.tenant == cast.server:
        found = found * (1.0 - _CALL_WITHOUT_CPU)
        found[SPLITS.index("runqueue")] += _CALL_WITHOUT_CPU
    return found


def rate(tenant: str, cast: Cast) -> float:
    """Returns the present rate at which ``tenant`` works, as a share of its usual rate. It is less than 1
    while the tenant lacks CPU time or data."""
    if cast.hog and tenant == cast.server:
        return RATE_WITHOUT_CPU
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
    return Evidence(
        charges=tuple(_charges(keys, split_ns, cast)),
        block_io=tuple(_block_io(keys, split_ns, seconds, cast)),
        tenants=tuple(
            TenantUse(tenant, cpu_ns=ns, memory_used_bytes=24 << 30, memory_limit_bytes=64 << 30)
            for tenant, ns in cpu_ns.items()
        ),
        processes=tuple(processes),
        ranks=tuple(_ranks(keys, calls, cast)),
    )


def _charges(keys: Sequence[RowKey], split_ns: U64, cast: Cast) -> Iterator[Charge]:
    trainer = next(key for key in keys if key.tenant == cast.trainer)
    for key, parts in zip(keys, split_ns, strict=True):
        if key.nested:
            continue
        if cast.hog and key.tenant == cast.server:
            part, culprit, times = "runqueue", cast.hog, 200
        elif key.operation == HOST_WORK:
            part, culprit, times = "process", Someone(trainer.tenant, trainer.pid, trainer.process), 20
        elif key.tenant == cast.trainer and key.operation == HOST_GAP:
            part, culprit, times = "process", cast.worker, 20
        else:
            continue
        whose = key.tenant, key.pid, key.process, key.layer, key.operation
        if ns := int(int(parts[SPLITS.index(part)]) * _CHARGED):
            yield Charge(*whose, part, *culprit, ns, times, key.device)


def _block_io(keys: Sequence[RowKey], split_ns: U64, seconds: float, cast: Cast) -> Iterator[BlockIo]:
    """Yields block I/O. The requests of the data worker take as long, together, as its row waits for the
    disk. The requests of the copier, while it is active, keep the disk busy."""

    def requests(who: Someone, per_s: float, size: int, each_ns: int, *, write: bool = False) -> BlockIo:
        count = max(int(per_s * seconds), 1)
        queued_ns = each_ns // 8
        waits = count * queued_ns, count * (each_ns - queued_ns), 4 * each_ns
        return BlockIo(*who, DISK, write, count, count * size, *waits)

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
    if cast.copier:
        found.append(ProcessUse(*cast.copier, cpu_ns=int(1.1e9 * seconds), threads=9, rss_bytes=2 << 30))
    return [replace(process, allowed_cpus=CPUS, allowed=f"0-{CPUS - 1}") for process in found]


def _ranks(keys: Sequence[RowKey], calls: U64, cast: Cast) -> Iterator[Rank]:
    """Yields the trainer's processes as the ranks of one communicator. All ranks have joined the same number
    of collectives."""
    entered = [
        (key, int(count))
        for key, count in zip(keys, calls, strict=True)
        if key.tenant == cast.trainer and key.operation == "ncclAllReduce" and count
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
