"""Healthy tenants of every kind, at random: nothing may be said about them."""

from __future__ import annotations

import random
import time
from typing import Final

from bench.faults.judging import early_alarms
from bench.faults.loaders import BATCH
from bench.faults.score import Healthy
from bench.faults.stage import Files, Stage
from bench.faults.watcher import Watcher
from bench.faults.workloads import latencies, loading_trainer, noise, step, trainer
from demo.build import Built

SETTLE_SECONDS: Final = 1.5
"""From the start of the tenants until what they do is no longer their start."""


def run_healthy(watcher: Watcher, built: Built, files: Files, seed: int, seconds: float) -> Healthy:
    """Watch a random choice of healthy tenants for ``seconds``."""
    with Stage(built, files, random.Random(seed)) as stage:
        files.device.show()
        noise(stage)
        tenants(stage)
        time.sleep(SETTLE_SECONDS)
        watcher.begin()
        time.sleep(seconds)
        seen = watcher.seen()
        alarms, disturbed = early_alarms(seen, stage.places)
        return Healthy(sum(look.window.seconds for look in seen), alarms, disturbed, seed)


def tenants(stage: Stage) -> None:
    """Two or three of the programs that trials hurt, none of them hurt."""
    chance = stage.chance
    kinds = chance.sample(("trainer", "loading", "reader", "locker", "server"), 2)
    for kind in kinds:
        place = stage.tenant(kind)
        if kind == "trainer":
            trainer(stage, place, compute_ms=chance.uniform(0.5, 2), sync_ms=chance.uniform(5, 15))
        elif kind == "loading":
            loading_trainer(stage, place, BATCH, workers=chance.randint(1, 2), sync_ms=chance.uniform(6, 12))
        elif kind == "reader":
            trainer(stage, place, before="@read:data:65536", sync_ms=10)
        elif kind == "locker":
            trainer(stage, place, before="@lock:shared:100", sync_ms=8)
            stage.process(place, "checkpointer", "@lock:shared:100 ~20000")
        else:
            stage.process(
                place,
                "serve.py",
                f"{step(12)} ~{chance.randint(4_000, 30_000)}",
                latencies=latencies(2, "futex"),
            )
