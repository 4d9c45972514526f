"""Faults of data loading: the thread that calls CUDA waits for slow worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.faults.stage.controllers import disk_of
from bench.faults.stage.fault import Truth, fault
from bench.faults.stage.stage import Stage
from bench.faults.stage.workloads import disk_victim, loading_trainer

BATCH: Final = "@read:data:131072:2 !700"
"""Items of ``demo/native/caller/caller.c`` that a worker process runs to prepare a batch."""


@fault("loader_disk", common=True)
def loader_disk(stage: Stage) -> Iterator[Truth]:
    """The workers read from a disk that another tenant loads, or that the tenant's I/O limit slows down."""
    how, victim, more = disk_victim(stage)
    loading_trainer(stage, victim, f"{BATCH} {more}".rstrip(), workers=stage.whole("workers", 1, 2))
    loader = stage.tenant("disk-load") if how == "neighbour" else None
    yield Truth(victim, loader)
    if loader is None:
        assert victim.limits is not None
        rate = int(2 * 131_072 * stage.between("batches_per_s", 10, 40))
        victim.limits.read_rate(disk_of(stage.files.folder), rate)
    else:
        stage.process(loader, "backup", "@read:load:1048576", threads=stage.whole("readers", 16, 40))


@fault("loader_cpu", common=True)
def loader_cpu(stage: Stage) -> Iterator[Truth]:
    """The workers need longer to prepare a batch than the device needs for a step."""
    victim = stage.tenant("victim")
    workers = stage.whole("workers", 1, 2)
    _, loaders = loading_trainer(stage, victim, BATCH, workers=workers)
    compute_us = stage.whole("compute_us", 25_000, 60_000)
    yield Truth(victim)
    for loader in loaders:
        loader.change(f"@read:data:131072:2 !{compute_us} @give:batches:{2 * workers}")


@fault("loader_lock", common=True)
def loader_lock(stage: Stage) -> Iterator[Truth]:
    """The workers wait for a lock that another process holds for long."""
    victim = stage.tenant("victim")
    loading_trainer(stage, victim, f"{BATCH} @lock:index:50", workers=stage.whole("workers", 1, 2))
    held_us = stage.whole("held_us", 25_000, 60_000)
    yield Truth(victim)
    stage.process(victim, "indexer", f"@lock:index:0:{held_us} ~500")
