"""Runs healthy tenants of every kind, which start, end and change what they do. The diagnosis must not report
a problem about them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from bench.faults.callers.loaders import BATCH
from bench.faults.callers.ranks import job
from bench.faults.stage.stage import Files, Place, Stage
from bench.faults.stage.workloads import fill_limit, latencies, loading_trainer, noise, step, trainer
from bench.faults.trial.judging import Alarms
from bench.faults.trial.outcome import Healthy
from bench.faults.trial.watcher import Watcher
from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.demo.latencies import Latency
from stalltop.model.errors import StalltopError

_MOST: Final = 3
"""Maximum number of temporary tenants at a time. With more of them, a host with two CPUs would lack CPU time,
and the diagnosis would rightly report a problem."""
_SETTLE_SECONDS: Final = 2.0
"""Time between the start of the first tenants and the first window: two CPUs are not enough while all of
these tenants start together. Later tenants start one by one and are observed from their start."""
_LONG_SECONDS: Final = 12.0
_PHASES: Final = (
    f"!800 {step(20)}",
    f"!400 {step(8)} ~25000",
    f"!1500 {step(40)} ~9000",
    f"{step(4)} ~60000",
)
"""Possible cycles of a tenant, as items of `demo/native/caller/caller.c`: training, evaluation, a larger
model, an idle server."""


@dataclass(slots=True)
class _Tenant:
    place: Place
    main: Caller | None = None
    """The process whose items `_Host.other_phase` may change; None if the tenant has no such process."""


@dataclass(slots=True)
class _Host:
    """All healthy tenants of one run."""

    stage: Stage
    told: list[str] = field(default_factory=list)
    going: list[_Tenant] = field(default_factory=list)
    number: int = 0
    long: Caller | None = None
    """The process of the program that waits long for the device in each step."""

    def begin(self) -> None:
        """Starts the permanent tenants (noise, two ranks of a communicator, a loader whose page cache fills
        its memory limit, a program with long waits) and two temporary ones."""
        noise(self.stage)
        job(self.stage, 2)
        try:
            full = self.stage.tenant("full", ("memory",))
        except StalltopError as error:
            self.told.append(str(error))
        else:
            loading_trainer(self.stage, full, f"{BATCH} {fill_limit(full)}", sync_ms=15)
        slow = self.stage.tenant("simulation")
        durations = {
            **latencies(8),
            "cuCtxSynchronize": Latency("poll", "lognormal", _LONG_SECONDS * 1e9, 0.05),
        }
        self.long = self.stage.process(slow, "simulate", latencies=durations)
        self.come()
        self.come()

    def change(self) -> None:
        """Makes one random change of a kind that also happens on real hosts without being a problem."""
        choices: list[Callable[[], None]] = [self.wait_long]
        choices += [self.other_phase] if any(one.main is not None for one in self.going) else []
        choices += [self.come] if len(self.going) < _MOST else []
        choices += [self.go] if len(self.going) > 1 else []
        self.stage.chance.choice(choices)()

    def wait_long(self) -> None:
        """Lets the program with long steps make one of its usual steps, which waits for the device for about
        ``_LONG_SECONDS``."""
        assert self.long is not None
        self.told.append("long synchronize")
        self.long.do("finish")
        self.long.start("cudaLaunchKernel:30 cudaDeviceSynchronize", cycles=1)

    def other_phase(self) -> None:
        """Lets a random tenant continue with other items of ``_PHASES``."""
        able = [one.main for one in self.going if one.main is not None]
        self.told.append("phase")
        self.stage.chance.choice(able).change(self.stage.chance.choice(_PHASES))

    def go(self) -> None:
        """Ends a random temporary tenant."""
        self.told.append("end")
        gone = self.going.pop(self.stage.chance.randrange(len(self.going)))
        for caller in gone.place.callers:
            caller.close()

    def come(self) -> None:
        """Starts a temporary tenant: a program of a kind that trials use as a victim, without a fault."""
        chance = self.stage.chance
        kind = chance.choice(("trainer", "loading", "reader", "locker", "server"))
        self.number += 1
        self.told.append(f"start {kind}")
        place = self.stage.tenant(f"{kind} {self.number}")
        one = _Tenant(place)
        if kind == "trainer":
            one.main = trainer(
                self.stage, place, compute_ms=chance.uniform(0.5, 2), sync_ms=chance.uniform(5, 15)
            )
        elif kind == "loading":
            loading_trainer(self.stage, place, BATCH, sync_ms=chance.uniform(8, 15))
        elif kind == "reader":
            trainer(self.stage, place, before="@read:data:65536", sync_ms=10)
        elif kind == "locker":
            trainer(self.stage, place, before=f"@lock:shared{self.number}:100", sync_ms=8)
            self.stage.process(place, "checkpointer", f"@lock:shared{self.number}:100 ~20000")
        else:
            one.main = self.stage.process(
                place,
                "serve.py",
                f"{step(12)} ~{chance.randint(4_000, 30_000)}",
                latencies=latencies(2, "futex"),
            )
        self.going.append(one)


def run_healthy(
    watcher: Watcher, built: Built, files: Files, into: Healthy, seconds: float, tell: Callable[[], None]
) -> None:
    """Watches healthy tenants for ``seconds`` with one diagnosis, which sees some of the tenants start.
    Writes the alarms so far into ``into`` and calls ``tell`` before each change of the tenants."""
    containers = "healthy" if watcher.learns else ""
    with Stage(built, files, random.Random(into.seed), containers) as stage:
        files.device.show()
        said = Alarms(stage.places)
        host = _Host(stage)
        host.begin()
        time.sleep(_SETTLE_SECONDS)
        watcher.begin()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, stage.chance.uniform(6, 14)))
            for look in watcher.taken():
                said.add(look)
                into.seconds += look.window.seconds
                if look.window.system is not None:
                    into.busy_seconds += look.window.system.cpu_percent / 100 * look.window.seconds
            into.alarms, into.disturbed, into.events = said.counted, said.disturbed, tuple(host.told)
            tell()
            if time.monotonic() < end:
                host.change()
