"""Simulates what the host does to its tenants: splits, the time between calls, and which tenant took it.

Most of the time all is well. In one part of every period another tenant takes an inference server's CPUs; in
another part a trainer's data worker waits for a disk that a third tenant loads. A plot may leave out either,
or let one of the trainer's ranks come late all the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.demo.habits import PEOPLE, PODS, Person
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
"""Beginning and end of the part of a period in which the server is short of CPU, s."""
DISK_LOADED: Final = (60.0, 80.0)
"""Beginning and end of the part of a period in which the trainer is short of data, s."""
CPUS: Final = 32
DISK: Final = "nvme0n1"
_SECOND_NS: Final = 1_000_000_000
_CHARGED: Final = 0.95
"""Part of a wait that has a known culprit."""


@dataclass(frozen=True, slots=True)
class Plot:
    """What happens on the simulated host, and to how many tenants."""

    tenants: int
    gpus: int
    cpu: bool = False
    """Whether a tenant sometimes takes another tenant's CPUs."""
    disk: bool = False
    """Whether a tenant sometimes loads a disk."""
    late_rank: bool = False
    """Whether the trainer's second rank comes late."""
    people: tuple[Person, ...] = PEOPLE
    """Candidates for the tenants; the first one trains."""
    mps: bool = False
    """Whether they share the devices through MPS, like pods of a node that were given replicas."""


EVERYTHING: Final = Plot(tenants=10, gpus=2, cpu=True, disk=True)
PLOTS: Final = {
    "trio": Plot(tenants=3, gpus=1, cpu=True),
    "noisy-neighbour": Plot(tenants=3, gpus=1, cpu=True),
    "slow-disk": Plot(tenants=6, gpus=1, disk=True),
    "straggler": Plot(tenants=1, gpus=2, late_rank=True),
    "mps": Plot(tenants=4, gpus=1, people=PODS, mps=True),
}
"""What happens in each scenario of `demo.scenario` if it is simulated."""
LATE_NS: Final = 18_000_000
"""Time by which a late rank enters each collective after the first one."""


@dataclass(frozen=True, slots=True)
class Someone:
    """A process that makes no traced call, and its tenant's id."""

    tenant: str
    pid: int
    process: str


@dataclass(frozen=True, slots=True)
class Cast:
    """Tenants and processes by their roles. A role is None if the host has too few tenants for it: then its
    part never happens."""

    trainer: str
    """Tenant id, as in ``server``."""
    worker: Someone
    """The trainer's data worker."""
    server: str | None
    hog: Someone | None
    """The process that takes the server's CPUs."""
    copier: Someone | None
    """The process that loads the disk."""
    late_rank: bool = False
    """Whether the trainer's second rank comes late."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What happens at one time."""

    cpu_taken: bool
    disk_loaded: bool


def moment(age: float, cast: Cast) -> Moment:
    """Returns what happens ``age`` seconds after the start."""
    within = age % PERIOD_SECONDS
    return Moment(
        cpu_taken=cast.hog is not None and CPU_TAKEN[0] <= within < CPU_TAKEN[1],
        disk_loaded=cast.copier is not None and DISK_LOADED[0] <= within < DISK_LOADED[1],
    )


def _shares(**shares: float) -> NDArray[np.float64]:
    """Returns shares by name as a vector; the remainder is running."""
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
"""Shares by a part of the operation's name; the first match counts."""
_GAPS: Final = {
    "trainer": _shares(runqueue=0.004, process=0.01),
    "server": _shares(runqueue=0.004, network=0.8),
    "other": _shares(runqueue=0.005, network=0.9),
}
_CALL_WITHOUT_CPU: Final = 0.12
"""Part of a call spent waiting for a CPU while another tenant has it."""
_GAP_WITHOUT_CPU: Final = _shares(runqueue=0.55, network=0.15)
_GAP_WITHOUT_DATA: Final = _shares(runqueue=0.01, process=0.85)
_WORK: Final = _shares(disk=0.06, process=0.5, runqueue=0.01)
"""Shares of a data worker that keeps up: it waits for the trainer to take a batch."""
_WORK_WITHOUT_DISK: Final = _shares(disk=0.9, process=0.01, runqueue=0.005)

RATE_WITHOUT_CPU: Final = 0.6
RATE_WITHOUT_DATA: Final = 0.45


def call_shares(key: RowKey, cast: Cast, now: Moment) -> NDArray[np.float64]:
    """Returns the shares of a call's time."""
    shares = next(found for part, found in _CALLS if part in key.operation)
    if now.cpu_taken and key.tenant == cast.server:
        shares = shares * (1.0 - _CALL_WITHOUT_CPU)
        shares[SPLITS.index("runqueue")] += _CALL_WITHOUT_CPU
    return shares


def gap_shares(tenant: str, cast: Cast, now: Moment) -> NDArray[np.float64]:
    """Returns the shares of the time between calls."""
    if tenant == cast.trainer:
        return _GAP_WITHOUT_DATA if now.disk_loaded else _GAPS["trainer"]
    if tenant == cast.server:
        return _GAP_WITHOUT_CPU if now.cpu_taken else _GAPS["server"]
    return _GAPS["other"]


def work_shares(now: Moment) -> NDArray[np.float64]:
    """Returns the shares of the data worker's time."""
    return _WORK_WITHOUT_DISK if now.disk_loaded else _WORK


def rate(tenant: str, cast: Cast, now: Moment) -> float:
    """Returns the part of its usual work that a tenant gets done."""
    if now.cpu_taken and tenant == cast.server:
        return RATE_WITHOUT_CPU
    return RATE_WITHOUT_DATA if now.disk_loaded and tenant == cast.trainer else 1.0


def divided(total_ns: U64, shares: NDArray[np.float64]) -> U64:
    """Returns ``total_ns`` of each row divided by ``shares``, shape (n, len(SPLITS)). Rounding errors are
    added to running, so that each row's parts add up to its total."""
    parts = np.floor(total_ns[:, None].astype(np.float64) * shares).astype(np.uint64)
    running = SPLITS.index("running")
    parts[:, running] = 0
    parts[:, running] = total_ns - parts.sum(axis=1, dtype=np.uint64)
    return parts


def gap_key(like: RowKey) -> RowKey:
    """Returns the row of the time between the calls of a row's process."""
    return like._replace(layer=HOST_LAYER, operation=HOST_GAP, nested=False)


def work_key(host: str, worker: Someone) -> RowKey:
    """Returns the row of a followed process."""
    return RowKey(host, worker.tenant, worker.pid, worker.process, HOST_LAYER, HOST_WORK)


def evidence(
    keys: Sequence[RowKey], calls: U64, split_ns: U64, seconds: float, cast: Cast, now: Moment
) -> Evidence:
    """Returns what else was measured, for complete rows."""
    processes = _processes(keys, split_ns, seconds, cast, now)
    return Evidence(
        charges=tuple(_charges(keys, split_ns, cast, now)),
        block_io=tuple(_block_io(keys, split_ns, seconds, cast, now)),
        tenants=tuple(_tenants(processes)),
        processes=tuple(processes),
        ranks=tuple(_ranks(keys, calls, cast)),
    )


def _charges(keys: Sequence[RowKey], split_ns: U64, cast: Cast, now: Moment) -> list[Charge]:
    found = []

    def charge(at: int, part: str, culprit: Someone, times: int) -> None:
        ns = int(int(split_ns[at, SPLITS.index(part)]) * _CHARGED)
        key = keys[at]
        if ns:
            found.append(
                Charge(
                    key.tenant,
                    key.pid,
                    key.process,
                    key.layer,
                    key.operation,
                    part,
                    *_who(culprit),
                    ns,
                    times,
                    key.device,
                )
            )

    for at, key in enumerate(keys):
        if key.nested:
            continue
        if key.tenant == cast.server and now.cpu_taken and cast.hog is not None:
            charge(at, "runqueue", cast.hog, 200)
        elif key.tenant == cast.trainer and key.operation == HOST_GAP:
            charge(at, "process", cast.worker, 20)
        elif key.operation == HOST_WORK:
            trainer = next(
                other for other in keys if other.tenant == cast.trainer and other.layer != HOST_LAYER
            )
            charge(at, "process", Someone(trainer.tenant, trainer.pid, trainer.process), 20)
    return found


def _who(someone: Someone) -> tuple[str, int, str]:
    return someone.tenant, someone.pid, someone.process


def _block_io(
    keys: Sequence[RowKey], split_ns: U64, seconds: float, cast: Cast, now: Moment
) -> list[BlockIo]:
    """Returns block I/O: the worker's requests take as long as its row says; the copier's keep the device
    busy."""

    def requests(who: Someone, per_s: float, size: int, each_ns: int, *, write: bool = False) -> BlockIo:
        count = max(int(per_s * seconds), 1)
        queued = each_ns // 8
        return BlockIo(
            *_who(who),
            device=DISK,
            write=write,
            requests=count,
            bytes=count * size,
            queued_ns=count * queued,
            service_ns=count * (each_ns - queued),
            max_ns=4 * each_ns,
        )

    at = next(i for i, key in enumerate(keys) if key.operation == HOST_WORK)
    waited = int(split_ns[at, SPLITS.index("disk")]) / seconds
    per_s = 120.0 if now.disk_loaded else 400.0
    found = [requests(cast.worker, per_s, 256 << 10, int(waited / per_s))]
    if now.disk_loaded and cast.copier is not None:
        found.append(requests(cast.copier, 5200.0, 512 << 10, 6_100_000))
        found.append(requests(cast.copier, 900.0, 1 << 20, 7_400_000, write=True))
    return found


def _tenants(processes: Sequence[ProcessUse]) -> list[TenantUse]:
    """Returns what the tenants' processes used, including those that make no traced call."""
    cpu: dict[str, int] = {}
    for process in processes:
        cpu[process.tenant] = cpu.get(process.tenant, 0) + process.cpu_ns
    return [
        TenantUse(tenant, cpu_ns=cpu_ns, memory_used_bytes=24 << 30, memory_limit_bytes=64 << 30)
        for tenant, cpu_ns in cpu.items()
    ]


def _processes(
    keys: Sequence[RowKey], split_ns: U64, seconds: float, cast: Cast, now: Moment
) -> list[ProcessUse]:
    cpu: dict[tuple[str, int, str], int] = {}
    for key, parts in zip(keys, split_ns, strict=True):
        who = (key.tenant, key.pid, key.process)
        if not key.nested:
            cpu[who] = cpu.get(who, 0) + int(parts[SPLITS.index("running")])
    found = [
        ProcessUse(
            *who,
            cpu_ns=cpu_ns,
            minor_faults=int(40 * seconds),
            link=1 if who == _who(cast.worker) else 0,
            threads=8,
            allowed_cpus=CPUS,
            allowed=f"0-{CPUS - 1}",
            rss_bytes=6 << 30,
            held_bytes=None if who == _who(cast.worker) else 20 << 30,
            held=0 if who == _who(cast.worker) else 900,
        )
        for who, cpu_ns in cpu.items()
    ]
    others = ((cast.hog, now.cpu_taken, 46, 28.0), (cast.copier, now.disk_loaded, 9, 1.1))
    for someone, active, threads, cpus in others:
        if someone is not None and active:
            found.append(
                ProcessUse(
                    *_who(someone),
                    cpu_ns=int(cpus * seconds * _SECOND_NS),
                    threads=threads,
                    allowed_cpus=CPUS,
                    allowed=f"0-{CPUS - 1}",
                    rss_bytes=2 << 30,
                )
            )
    return found


def _ranks(keys: Sequence[RowKey], calls: U64, cast: Cast) -> list[Rank]:
    """Returns the trainer's processes as the ranks of one communicator, which keep together."""
    entered = [
        (key, int(count))
        for key, count in zip(keys, calls, strict=True)
        if key.tenant == cast.trainer and key.operation == "ncclAllReduce" and count
    ]
    joined = min((count for _, count in entered), default=0) if len(entered) > 1 else 0
    late = 1 if cast.late_rank else None
    return [
        Rank(
            communicator="51e0a7b3c4d2f901",
            tenant=key.tenant,
            pid=key.pid,
            process=key.process,
            rank=rank,
            ranks=len(entered),
            local_ranks=len(entered),
            collectives=count,
            joined=joined,
            late_ns=joined * (LATE_NS if late == rank else 21_000 if rank % 2 else 17_000),
            last=joined // 2 if late is None else joined if late == rank else 0,
            since_entry_ns=4_000_000,
        )
        for rank, (key, count) in enumerate(entered)
    ]
