"""Makes a window by hand for each fault of the host, for tests of the diagnosis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stalltop.model.chain import Chain
from stalltop.model.evidence import (
    HOST_GAP,
    HOST_LAYER,
    HOST_WORK,
    BlockIo,
    Charge,
    Event,
    Evidence,
    ProcessUse,
    TenantUse,
    added,
)
from stalltop.model.merge.merging import merge_rows
from stalltop.model.thread_evidence import FSYNC, NOBODY, ThreadEvidence, ThreadId, ThreadWait
from stalltop.model.window import OpenCall, Window
from tests.windows.evidence import (
    BATCH,
    SERVE,
    SYSTEM,
    TRAIN,
    charge,
    row,
    window,
)

MS = 1_000_000
MIB = 1 << 20
LAUNCHES = row("cudaLaunchKernel", 1000, running=10)


def io(
    tenant: str, pid: int, process: str, service_ms: float, *, queued_ms: float = 1, requests: int = 40
) -> BlockIo:
    return BlockIo(
        *(tenant, pid, process, "vda", False, requests, requests * 131_072),
        *(round(queued_ms * MS), round(service_ms * MS), round(service_ms * MS)),
    )


def worker_gap(ms: float, *, part: str = "process", worker: int = 101) -> Window:
    """Returns a second of a trainer that waits for a worker in its host gaps, for ``ms`` in all. ``work``
    returns a window of what the worker did in that time."""
    return window(
        [LAUNCHES, row(HOST_GAP, 40, {"running": 990 - ms, part: ms})],
        charges=[charge(part, ms, worker, culprit_tenant=TRAIN, culprit_process="worker")],
        processes=[
            ProcessUse(TRAIN, 100, "train.py", link=0, threads=4),
            ProcessUse(TRAIN, worker, "worker", link=1, threads=1, parent_pid=100),
        ],
    )


def work(*charges: Charge, **split_ms: float) -> Window:
    """Returns a window with the host work of the worker of ``worker_gap``, and ``charges`` for this worker's
    time."""
    return window([row(HOST_WORK, 40, split_ms, pid=101, program="worker")], charges=charges)


def work_charge(part: str, ms: float, culprit: int, tenant: str = BATCH, process: str = "stress") -> Charge:
    """Charges ``ms`` of the worker's time to process ``culprit``."""
    return charge(
        *(part, ms, culprit),
        operation=HOST_WORK,
        pid=101,
        process="worker",
        culprit_tenant=tenant,
        culprit_process=process,
    )


def plus(one: Window, other: Window) -> Window:
    """Merges two windows of the same second."""
    return replace(
        one,
        rows=merge_rows([one.rows, other.rows]),
        evidence=added([one.evidence, other.evidence]),
        open_calls=one.open_calls + other.open_calls,
    )


def cpu_contention() -> Window:
    return window(
        [
            row("cudaLaunchKernel", 1000, running=10, runqueue=100),
            row(HOST_GAP, 40, running=490, runqueue=400),
        ],
        charges=[
            charge("runqueue", 350, 900),
            charge("runqueue", 30, 950, culprit_tenant=SYSTEM, culprit_process="cron"),
            # Small charges of several processes; the tracer adds them up under PID 0.
            charge("runqueue", 20, 0, culprit_tenant=BATCH, culprit_process="others"),
            charge("runqueue", 90, 901, operation="cudaLaunchKernel"),
        ],
        tenants=[TenantUse(BATCH, cpu_ns=1_900 * MS)],
        cpus=(100, 100, 100, 100),
    )


def own_threads() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=590, runqueue=400)],
        charges=[charge("runqueue", 390, 100, culprit_tenant=TRAIN, culprit_process="train.py")],
        processes=[ProcessUse(TRAIN, 100, "train.py", link=0, threads=32, allowed_cpus=4, allowed="0-3")],
        cpus=(100, 100, 100, 100),
    )


def threads_crowded_by_another_tenant(
    cpu_ms: int = 1_000, charged_ms: int = 100, busy_percent: float = 100
) -> Window:
    """The trainer's threads ran for ``cpu_ms`` in this second and wait for each other on four CPUs, which are
    busy for ``busy_percent`` of the time. Another tenant uses most of the time of these CPUs, and is charged
    with ``charged_ms`` of the waits."""
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=590, runqueue=400)],
        charges=[
            charge("runqueue", 290, 100, culprit_tenant=TRAIN, culprit_process="train.py"),
            charge("runqueue", charged_ms, 900),
        ],
        processes=[ProcessUse(TRAIN, 100, "train.py", link=0, threads=2, allowed_cpus=4, allowed="0-3")],
        tenants=[TenantUse(TRAIN, cpu_ns=cpu_ms * MS), TenantUse(BATCH, cpu_ns=3_000 * MS)],
        cpus=(busy_percent,) * 4,
    )


def cfs_throttling() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=290, runqueue=700)],
        # While the quota stopped the trainer, a neighbour ran on its CPUs, but took no time from the trainer.
        charges=[charge("runqueue", 60, 900)],
        tenants=[
            TenantUse(
                *(TRAIN, 300 * MS, 10, 9, 690 * MS),
                cpu_quota=0.3,
                quota_cgroup="/docker/train",
            )
        ],
    )


def cpu_pinning() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=490, runqueue=500)],
        charges=[charge("runqueue", 480, 102, culprit_tenant=TRAIN, culprit_process="train.py")],
        processes=[ProcessUse(TRAIN, 100, "train.py", link=0, threads=2, allowed_cpus=1, allowed="2")],
        cpus=(5, 8, 100, 12),
    )


def loader_disk() -> Window:
    return plus(
        plus(worker_gap(600), work(disk=800, running=100, runqueue=10)),
        window(
            evidence=Evidence(
                block_io=(io(TRAIN, 101, "worker", 800), io(BATCH, 900, "backup", 9_000, requests=400))
            )
        ),
    )


def loader_disk_at_the_memory_limit() -> Window:
    """The page cache fills the trainer's memory limit, but its reads are slow because a neighbour loads the
    disk: a higher limit would not help."""
    use = TenantUse(
        TRAIN,
        reclaims=400,
        refaults=40 * 32,
        memory_used_bytes=64 * MIB,
        memory_limit_bytes=64 * MIB,
    )
    return plus(loader_disk(), window(tenants=[use]))


def loader_disk_of_more_than_its_limit() -> Window:
    """The trainer reads more data than fits its memory limit, but each part only once: reclaim takes little
    time, and hardly anything is read again."""
    use = TenantUse(
        TRAIN,
        reclaims=40,
        reclaim_ns=5 * MS,
        refaults=40,
        memory_used_bytes=64 * MIB,
        memory_limit_bytes=64 * MIB,
    )
    alone = plus(
        plus(worker_gap(600), work(disk=800, running=100, runqueue=10)),
        window(evidence=Evidence(block_io=(io(TRAIN, 101, "worker", 800),))),
    )
    return plus(alone, window(tenants=[use]))


def loader_disk_limited() -> Window:
    return plus(
        plus(worker_gap(600), work(disk=900, running=100)),
        window(
            evidence=Evidence(
                block_io=(
                    io(TRAIN, 101, "worker", 40, queued_ms=860),
                    # This neighbour uses the disk a little; what delays the worker is an I/O limit.
                    io(BATCH, 900, "logger", 60),
                )
            )
        ),
    )


def loader_disk_behind_own_thread() -> Window:
    """The calling thread waits for a thread that pins memory, which waits for a worker, which waits for the
    disk."""
    return plus(
        plus(
            worker_gap(600, part="lock", worker=100),
            window(
                [row(HOST_WORK, 40, running=60, process=900)],
                charges=[
                    charge(
                        *("process", 890, 101),
                        operation=HOST_WORK,
                        culprit_tenant=TRAIN,
                        culprit_process="worker",
                    )
                ],
            ),
        ),
        plus(
            work(disk=800, running=100),
            window(evidence=Evidence(block_io=(io(TRAIN, 101, "worker", 800),))),
        ),
    )


def loader_cpu() -> Window:
    return plus(worker_gap(600), work(running=900, disk=10, runqueue=20))


def loader_lock() -> Window:
    return plus(worker_gap(600), work(work_charge("lock", 840, 130, TRAIN, "indexer"), lock=850, running=100))


def starved_by_hog() -> Window:
    """The workers get no CPU: the root is the process that takes the CPU, not the workers."""
    return plus(worker_gap(600), work(work_charge("runqueue", 780, 900), runqueue=800, running=150))


def slow_disk() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=390, disk=600)],
        evidence=Evidence(
            block_io=(io(TRAIN, 100, "train.py", 590), io(BATCH, 900, "backup", 9_000, requests=400))
        ),
    )


def fsync() -> Window:
    """A checkpoint waits for a disk to which another tenant writes, too."""
    return plus(slow_disk(), window(evidence=Evidence(threads=ThreadEvidence((_in_fsync(590),)))))


def fsync_alone() -> Window:
    return plus(
        window([LAUNCHES, row(HOST_GAP, 40, running=390, disk=600)]),
        window(
            evidence=Evidence(
                block_io=(io(TRAIN, 100, "train.py", 590),), threads=ThreadEvidence((_in_fsync(590),))
            )
        ),
    )


def _in_fsync(ms: float) -> ThreadWait:
    thread = ThreadId(TRAIN, 100, "train.py", 100)
    return ThreadWait(thread, HOST_LAYER, HOST_GAP, "disk", FSYNC, NOBODY, round(ms * MS), 40)


def reclaim() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=390, disk=600)],
        evidence=Evidence(block_io=(io(TRAIN, 100, "train.py", 590, requests=2_000),)),
        tenants=[
            TenantUse(
                TRAIN,
                reclaims=400,
                reclaim_ns=100 * MS,
                refaults=2_000 * 32,
                memory_used_bytes=63 * MIB,
                memory_limit_bytes=64 * MIB,
                memory_cgroup="/docker/train",
            )
        ],
    )


def reclaim_that_takes_time() -> Window:
    """Without a count of refaults, the time spent in reclaim shows the cause."""
    use = TenantUse(
        TRAIN,
        reclaims=400,
        reclaim_ns=400 * MS,
        memory_used_bytes=63 * MIB,
        memory_limit_bytes=64 * MIB,
    )
    return window([LAUNCHES, row(HOST_GAP, 40, running=390, disk=600)], tenants=[use])


def major_faults() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=390, memory=600)],
        processes=[ProcessUse(TRAIN, 100, "train.py", major_faults=2_000, link=0)],
        evidence=Evidence(block_io=(io(TRAIN, 100, "train.py", 590, requests=2_000),)),
    )


def lock_contention() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=390, lock=600), row(HOST_WORK, 40, pid=140, sleep=950)],
        charges=[charge("lock", 590, 140, culprit_tenant=SERVE, culprit_process="checkpointer")],
    )


def tcp_retransmits() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=390, network=600)],
        processes=[ProcessUse(TRAIN, 100, "train.py", retransmits_v4=50, link=0)],
        # The peer's answers end the waits, but the peer is not to blame for segments that the link loses.
        charges=[charge("network", 500, 400, culprit_tenant=SERVE, culprit_process="server")],
    )


def oom_kill() -> Window:
    event = Event(1_000.5, "oom_kill", TRAIN, 150, "preprocess", "killed")
    return window(
        [LAUNCHES],
        evidence=Evidence(events=(event,)),
        tenants=[
            TenantUse(
                TRAIN,
                limit_hits=4,
                limit_kills=1,
                memory_limit_bytes=96 * MIB,
                memory_used_bytes=40 * MIB,
                memory_cgroup="/docker/train",
                memory_version=2,
            )
        ],
    )


def oom_kill_without_an_event() -> Window:
    return replace_evidence(oom_kill(), events=(), oom_kills=1)


def replace_evidence(one: Window, *, events: tuple[Event, ...], **use: Any) -> Window:
    """Returns ``one`` with ``events`` in place of its own, and with the figures ``use`` for all tenants."""
    tenants = tuple(replace(known, **use) for known in one.evidence.tenants)
    return replace(one, evidence=replace(one.evidence, events=events, tenants=tenants))


def waiting(seconds: float, longest_ms: float | None, operation: str = "cuStreamSynchronize") -> Window:
    """Returns a window with a call of ``operation`` that has been open for ``seconds``, and with a
    cuStreamSynchronize that ended and took ``longest_ms``. If ``longest_ms`` is None, no call has ended."""
    call = OpenCall(TRAIN, 100, 104, "train.py", "driver", operation, round(seconds * 1e9))
    before = [] if longest_ms is None else [row("cuStreamSynchronize", 1, gpu=longest_ms)]
    return window([LAUNCHES, *before], open_calls=[call])


def hung_call() -> Window:
    return waiting(42, 20)


def tracer() -> Window:
    calls = [row("cudaGraphLaunch", 40_000, running=200), row(HOST_GAP, 40_000, running=790)]
    return window(calls, probe_ns=5_500)


FAULTS = {
    # cause: (window, tenant of the culprit, PID of the culprit)
    "cpu_contention": (cpu_contention, BATCH, 900),
    "own_threads": (own_threads, TRAIN, 100),
    "cpu_contention that crowds own threads": (threads_crowded_by_another_tenant, BATCH, 900),
    "cfs_throttling": (cfs_throttling, TRAIN, 0),
    "cpu_pinning": (cpu_pinning, TRAIN, 102),
    "loader_disk": (loader_disk, BATCH, 900),
    "loader_disk limited": (loader_disk_limited, TRAIN, 101),
    "loader_disk behind a thread": (loader_disk_behind_own_thread, TRAIN, 101),
    "loader_cpu": (loader_cpu, TRAIN, 101),
    "loader_lock": (loader_lock, TRAIN, 130),
    "cpu_contention of workers": (starved_by_hog, BATCH, 900),
    "slow_disk": (slow_disk, BATCH, 900),
    "fsync": (fsync, BATCH, 900),
    "fsync alone": (fsync_alone, TRAIN, 100),
    "reclaim": (reclaim, TRAIN, 100),
    "major_faults": (major_faults, TRAIN, 100),
    "lock_contention": (lock_contention, SERVE, 140),
    "tcp_retransmits": (tcp_retransmits, TRAIN, 100),
    "reclaim that takes time": (reclaim_that_takes_time, TRAIN, 100),
    "oom_kill": (oom_kill, TRAIN, 150),
    "oom_kill without an event": (oom_kill_without_an_event, TRAIN, 0),
    "loader_disk at the memory limit": (loader_disk_at_the_memory_limit, BATCH, 900),
    "loader_disk that reads more than its limit": (loader_disk_of_more_than_its_limit, TRAIN, 101),
    "tracer": (tracer, "", 0),
}


def faults(chains: tuple[Chain, ...]) -> list[Chain]:
    return [chain for chain in chains if chain.severity != "info"]
