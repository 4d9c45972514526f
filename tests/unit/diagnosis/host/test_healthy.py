"""Tests healthy programs that look like a fault of the host."""

from __future__ import annotations

import pytest

from stalltop.diagnosis.engine import explain
from stalltop.model.evidence import HOST_GAP, HOST_WORK, Charge, Evidence, ProcessUse, TenantUse
from stalltop.model.window import Window
from tests.unit.diagnosis.faults import (
    LAUNCHES,
    MIB,
    MS,
    faults,
    io,
    plus,
    work,
    work_charge,
    worker_gap,
)
from tests.windows.evidence import (
    BATCH,
    SERVE,
    TRAIN,
    Spent,
    charge,
    healthy_trainer,
    row,
    window,
)


def steps(**gap_ms: float) -> Window:
    return window([*healthy_trainer()[:2], row(HOST_GAP, 40, gap_ms, running=990 - sum(gap_ms.values()))])


def idle_server() -> Window:
    """A server waits for requests. They come from a client in its pod, which does little work itself."""

    def served(operation: str, **split_ms: float) -> Spent:
        return row(operation, 50, tenant=SERVE, pid=200, program="serve.py", spent_ms=split_ms)

    def charged(part: str, ms: float, culprit: int, process: str) -> Charge:
        return charge(
            *(part, ms, culprit),
            tenant=SERVE,
            pid=200,
            process="serve.py",
            culprit_tenant=SERVE,
            culprit_process=process,
        )

    return window(
        [
            served("cudaLaunchKernel", running=1),
            served(HOST_GAP, running=50, network=600, lock=300),
            row(HOST_WORK, 50, tenant=SERVE, pid=201, program="frontend", running=100, network=850),
        ],
        charges=[charged("network", 600, 201, "frontend"), charged("lock", 300, 200, "serve.py")],
    )


def workers_wait_for_the_trainer() -> Window:
    """The queues are full: workers wait for the caller, and the caller hardly ever waits for a worker."""
    return plus(
        worker_gap(60), work(work_charge("process", 850, 100, TRAIN, "train.py"), process=850, running=100)
    )


def waits_for_an_idle_worker() -> Window:
    """A worker that waits for another host is not to blame."""
    return plus(worker_gap(700), work(network=900, running=50))


def autograd_thread() -> Window:
    """Two calling threads take turns: each waits in a futex for the other."""
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=900, lock=900)],
        charges=[charge("lock", 890, 100, culprit_tenant=TRAIN, culprit_process="train.py")],
        processes=[ProcessUse(TRAIN, 100, "train.py", link=0, threads=8)],
    )


def blocking_sync() -> Window:
    """A thread of the driver wakes the caller when the device is done."""
    return window(
        [row("cudaStreamSynchronize", 20, lock=900), row(HOST_GAP, 20, running=90)],
        charges=[
            charge(
                *("lock", 890, 100),
                operation="cudaStreamSynchronize",
                culprit_tenant=TRAIN,
                culprit_process="train.py",
            )
        ],
    )


def busy_neighbour_elsewhere() -> Window:
    """Another tenant uses much CPU, but takes none from the trainer."""
    return plus(steps(runqueue=8), window(tenants=[TenantUse(BATCH, cpu_ns=2_000 * MS)]))


def fast_disk() -> Window:
    return plus(
        steps(disk=120),
        window(evidence=Evidence(block_io=(io(TRAIN, 100, "train.py", 110, requests=400),))),
    )


def quota_not_reached() -> Window:
    return plus(
        steps(runqueue=20),
        window(tenants=[TenantUse(TRAIN, 500 * MS, 10, 0, 0, cpu_quota=2.0, quota_cgroup="/docker/train")]),
    )


def full_cache() -> Window:
    """The page cache fills the memory limit. Without refaults or long reclaims this costs nothing."""
    return plus(
        steps(),
        window(
            tenants=[TenantUse(TRAIN, reclaims=5, memory_used_bytes=64 * MIB, memory_limit_bytes=64 * MIB)]
        ),
    )


def few_retransmits() -> Window:
    return plus(
        steps(network=300),
        window(processes=[ProcessUse(TRAIN, 100, "train.py", retransmits_v4=1, link=0)]),
    )


def wide_cpu_set() -> Window:
    """The process is pinned to two CPUs, but hardly waits for them."""
    return plus(
        steps(runqueue=10),
        window(
            processes=[ProcessUse(TRAIN, 100, "train.py", link=0, allowed_cpus=2, allowed="0-1")],
        ),
    )


def sleeping_loop() -> Window:
    return steps(sleep=700)


HEALTHY = (
    *(idle_server, workers_wait_for_the_trainer, waits_for_an_idle_worker, autograd_thread, blocking_sync),
    *(busy_neighbour_elsewhere, fast_disk, quota_not_reached, full_cache, few_retransmits, wide_cpu_set),
    sleeping_loop,
)


@pytest.mark.parametrize("made", HEALTHY, ids=lambda made: made.__name__)
def test_healthy_programs_have_no_fault(made) -> None:  # type: ignore[no-untyped-def]
    assert faults(explain(made())) == []


def test_a_healthy_trainer_has_no_fault() -> None:
    assert faults(explain(window(healthy_trainer()))) == []
