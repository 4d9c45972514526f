"""Windows with evidence about threads, and what their attribution finds."""

from __future__ import annotations

from dataclasses import replace

from stalltop.diagnosis.attribution.attribution import Attribution
from stalltop.diagnosis.attribution.losses import Loss
from stalltop.diagnosis.facts import Facts
from stalltop.model.evidence import HOST_GAP, HOST_LAYER, HOST_WORK, TenantUse
from stalltop.model.thread_evidence import (
    ENDED,
    FSYNC,
    HAND_OVER,
    HELD_BACK,
    TIMEOUT,
    TIMER,
    Asks,
    Command,
    Servers,
    Stop,
    ThreadEvidence,
    ThreadId,
    ThreadWait,
    ThreadWork,
)
from stalltop.model.window import SPLITS, Window
from tests.windows.evidence import BATCH, TRAIN, row, window

MS = 1_000_000
PARTS = {
    HAND_OVER: "lock",
    TIMEOUT: "lock",
    TIMER: "network",
    ENDED: "network",
    FSYNC: "disk",
} | dict.fromkeys(HELD_BACK, "other")
"""For each kind of wait whose name is not a part of the split: the part in which its time counts."""
CALLER = ThreadId(TRAIN, 100, "train.py", 100)
PIN = ThreadId(TRAIN, 100, "train.py", 107)
FEEDER = ThreadId(TRAIN, 101, "pt_data_worker", 111)
WORKER = ThreadId(TRAIN, 101, "pt_data_worker", 101)
SERVER = ThreadId(BATCH, 300, "features", 300)


def wait(thread: ThreadId, kind: str, waker: ThreadId, ms: float, times: int = 20) -> ThreadWait:
    operation = HOST_GAP if thread in (CALLER,) else HOST_WORK
    return ThreadWait(
        thread, HOST_LAYER, operation, PARTS.get(kind, kind), kind, waker, round(ms * MS), times
    )


def did(thread: ThreadId, *, startup_ms: float = 0, name: str = "", **split_ms: float) -> ThreadWork:
    parts = tuple(round(split_ms.get(part, 0) * MS) for part in SPLITS)
    return ThreadWork(thread, name or thread.process, 1, parts, round(startup_ms * MS))


def seen(
    *waited: ThreadWait,
    works: tuple[ThreadWork, ...] = (),
    asks: tuple[Asks, ...] = (),
    servers: tuple[Servers, ...] = (),
    commands: tuple[Command, ...] = (),
    python: tuple[int, ...] = (),
    local: tuple[int, ...] = (),
    stops: tuple[Stop, ...] = (),
    exits: int = 0,
    **gap_ms: float,
) -> Window:
    """Returns a second of a caller whose host gaps have the parts ``gap_ms``, together with evidence about
    threads."""
    evidence = ThreadEvidence(waited, works, asks, servers, commands, python, local, stops=stops)
    made = window(
        [row("cudaLaunchKernel", 1000, running=10), row(HOST_GAP, 40, gap_ms)],
        tenants=[TenantUse(TRAIN, exits=exits)],
    )
    return replace(made, evidence=replace(made.evidence, threads=evidence))


def lost(of: Window) -> dict[str, Loss]:
    return {loss.cause: loss for loss in Attribution(Facts(of)).losses()}


def culprits(loss: Loss) -> set[int]:
    return {who.pid for who in loss.culprits}
