"""Faults of chosen strength: each makes its victim lose a given share of the victim's time.

Rehearsals before the trial find out how strong the fault must be. Results use the share that the victim loses
in the trial itself, computed from the victim's own count of steps.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from bench.faults.callers.host import CPUS
from bench.faults.callers.loaders import BATCH
from bench.faults.real.loaders import QUICK_MS
from bench.faults.real.running import RealProgram, free_port
from bench.faults.stage.controllers import disk_of
from bench.faults.stage.fault import Fault, Truth
from bench.faults.stage.stage import Stage
from bench.faults.stage.workloads import loading_trainer, steps_of, trainer
from stalltop.model.errors import StalltopError

STRENGTHS: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Shares of the victim's time that the faults are meant to take."""
_PACE_SECONDS: Final = 1.2
"""Time for which a rehearsal counts the victim's steps: several rounds of ``_ROUND_US``."""
_SETTLE_SECONDS: Final = 0.3
"""Time to wait before counting steps, so that the victim uses up batches that were prepared before the fault
was changed."""
_CALM_SECONDS: Final = 1.2
"""Least time from the last rehearsal to the beginning of the trial. It is longer than a window, so that no
window of the trial shows a part of a rehearsal."""
_REHEARSALS: Final = 2
"""Number of rehearsals: injections before the trial. After each one, the requested share is corrected by the
difference between the intended and the measured loss."""
REHEARSAL_SECONDS: Final = (1 + _REHEARSALS) * (_SETTLE_SECONDS + _PACE_SECONDS) + _CALM_SECONDS
"""Time from the first count of steps to the trial: one count without the fault, all rehearsals, and
``_CALM_SECONDS``."""
_LEAST: Final = 0.003
_MOST: Final = 0.97
"""Least and greatest share of the victim's time that may be requested from a fault, in a rehearsal or in the
trial."""
_LEAST_OF_LOADING: Final = -0.5
"""Least share that may be requested from a fault that delays batches. The share may be negative, because a
batch takes longer than requested: handing it over takes time too."""
_COMPUTE_MS: Final = 6.0
_SYNC_MS: Final = 5.0
_ROUND_US: Final = 200_000
"""Length of a round. Some faults are active only for a part of each round."""
_HELD_US: Final = 12_000
"""Minimum time for which the other tenant holds the lock each time it takes the lock."""
_READ_BYTES: Final = 131_072
_HIGHEST_PRIORITY: Final = -20


@dataclass(frozen=True, slots=True)
class Harm:
    """A fault that is set up: functions to inject it and to count the victim's steps."""

    truth: Truth
    steps: Callable[[], int]
    """Returns the number of steps that the victim has made, as counted by the victim itself."""
    inject: Callable[[float, float], None]
    """Makes the victim lose a share of its time from now on. Arguments: the share (0 ends the fault), and how
    long a step of the victim takes without the fault, s."""


GRADED: Final[dict[str, Fault]] = {}
"""Faults of this module by name. Their field ``strength`` is not set: `bench.faults.command` sets it for each
trial."""


def graded(
    cause: str, *, real: bool = False, least: float = _LEAST
) -> Callable[[Callable[[Stage], Harm]], Callable[[Stage], Harm]]:
    """Returns a decorator for functions that set up a trial. It registers the function as a fault of
    ``cause``. ``real`` says that the fault needs public packages; ``least`` is the least share that
    may be requested from the fault."""

    def register(made: Callable[[Stage], Harm]) -> Callable[[Stage], Harm]:
        def script(stage: Stage) -> Iterator[Truth]:
            harm = made(stage)
            stage.steps = harm.steps
            step_seconds, asked = _rehearsed(harm, stage.strength, least)
            stage.notes["asked"] = round(asked, 3)
            time.sleep(_CALM_SECONDS)
            yield harm.truth
            harm.inject(asked, step_seconds)

        script.__doc__ = made.__doc__
        GRADED[cause] = Fault(cause, cause, script, real=real)
        return made

    return register


def _rehearsed(harm: Harm, strength: float, least: float) -> tuple[float, float]:
    """Injects the fault `_REHEARSALS` times for a moment. Returns how long a step of the victim takes without
    the fault, s, and the share to request so that the victim loses ``strength``. Raises StalltopError if the
    victim makes no steps."""
    healthy = _pace(harm)
    if not healthy:
        raise StalltopError("the victim makes no steps, so that its loss cannot be chosen")
    asked = strength
    for _ in range(_REHEARSALS):
        harm.inject(asked, 1 / healthy)
        missed = strength - (1 - _pace(harm) / healthy)
        harm.inject(0.0, 1 / healthy)
        asked = min(max(asked + missed, least), _MOST)
    return 1 / healthy, asked


def _pace(harm: Harm) -> float:
    """Measures for ``_PACE_SECONDS`` how many steps per second the victim makes."""
    time.sleep(_SETTLE_SECONDS)
    began, before = time.monotonic(), harm.steps()
    time.sleep(_PACE_SECONDS)
    return (harm.steps() - before) / (time.monotonic() - began)


@graded("cpu_contention")
def cpu_contention(stage: Stage) -> Harm:
    """Another tenant computes on all CPUs for a part of every 200 ms, with a higher priority."""
    victim, hog = stage.tenant("victim"), stage.tenant("hog")
    caller = trainer(stage, victim, compute_ms=_COMPUTE_MS, sync_ms=_SYNC_MS)
    hogs = [stage.process(hog, "batch") for _ in range(CPUS)]
    for one, cpu in zip(hogs, sorted(os.sched_getaffinity(0)), strict=True):
        os.sched_setaffinity(one.pid, {cpu})
        os.setpriority(os.PRIO_PROCESS, one.pid, _HIGHEST_PRIORITY)

    def inject(share: float, _: float) -> None:
        busy_us = int(share * _ROUND_US)
        command = f"start 1 0 !{busy_us} ~{_ROUND_US - busy_us}" if share else "stop"
        for one in hogs:  # Sends all commands before waiting for answers: all begin together.
            one.tell(command)
        for one in hogs:
            one.answer()

    return Harm(Truth(victim, hog), partial(steps_of, caller), inject)


@graded("cfs_throttling")
def cfs_throttling(stage: Stage) -> Harm:
    """The victim's CPU quota is set below the CPU time that the victim uses."""
    victim = stage.tenant("victim", ("cpu",))
    caller = trainer(stage, victim, compute_ms=_COMPUTE_MS, sync_ms=_SYNC_MS)
    limits = victim.limits
    assert limits is not None

    def inject(share: float, step_seconds: float) -> None:
        limits.cpu((1 - share) * _COMPUTE_MS / 1e3 / step_seconds if share else None)

    return Harm(Truth(victim), partial(steps_of, caller), inject)


@graded("slow_disk")
def slow_disk(stage: Stage) -> Harm:
    """The victim's I/O limit is set below the rate at which the victim reads."""
    victim = stage.tenant("victim", ("blkio",))
    caller = trainer(stage, victim, before=f"@read:data:{_READ_BYTES}", sync_ms=_SYNC_MS)
    limits, disk = victim.limits, disk_of(stage.files.folder)
    assert limits is not None

    def inject(share: float, step_seconds: float) -> None:
        limits.read_rate(disk, int((1 - share) * _READ_BYTES / step_seconds) if share else None)

    return Harm(Truth(victim), partial(steps_of, caller), inject)


@graded("lock_contention")
def lock_contention(stage: Stage) -> Harm:
    """A process of another tenant takes a lock again and again and holds it for 12 ms or more each time. The
    victim takes this lock in every step."""
    victim, holder = stage.tenant("victim"), stage.tenant("holder")
    caller = trainer(stage, victim, before="@lock:shared:100", sync_ms=_SYNC_MS)
    other = stage.process(holder, "checkpointer")

    def inject(share: float, step_seconds: float) -> None:
        if share:
            # In every pause of the holder, the victim gets the lock and makes one step. So the lock must be
            # held for share / (1 - share) times the time of a step, or the victim would lose less than that
            # share.
            held_us = max(_HELD_US, int(step_seconds * 1e6 * share / (1 - share)))
            other.start(f"@lock:shared:0:{held_us} ~{int(held_us / share) - held_us}")
        else:
            other.stop()

    return Harm(Truth(victim, holder), partial(steps_of, caller), inject)


@graded("loader_cpu", least=_LEAST_OF_LOADING)
def loader_cpu(stage: Stage) -> Harm:
    """A worker computes longer for a batch than the device needs for a step."""
    victim = stage.tenant("victim")
    caller, (worker,) = loading_trainer(stage, victim, BATCH)

    def inject(share: float, step_seconds: float) -> None:
        compute_us = int(step_seconds / (1 - share) * 1e6)
        batch = f"@read:data:131072:2 !{compute_us}" if share else BATCH
        worker.change(f"{batch} @give:batches:2")

    return Harm(Truth(victim), partial(steps_of, caller), inject)


@graded("loader_sleep", real=True, least=_LEAST_OF_LOADING)
def loader_sleep(stage: Stage) -> Harm:
    """The items of a PyTorch DataLoader sleep for longer than the device needs for a step."""
    victim = stage.tenant("victim")
    program = RealProgram(
        stage,
        victim,
        "torch_loader.py",
        *("--workers", "1", "--persistent", "--item", "sleep"),
        numbers=(QUICK_MS,),
    )
    return Harm(Truth(victim), program.steps, partial(_late_items, program))


@graded("remote_service", real=True, least=_LEAST_OF_LOADING)
def remote_service(stage: Stage) -> Harm:
    """The items of a PyTorch DataLoader ask a server in another container, which computes for longer than the
    device needs for a step."""
    victim, features = stage.tenant("victim"), stage.tenant("features")
    port = free_port()
    server = RealProgram(stage, features, "server.py", "--port", str(port), numbers=(QUICK_MS,))
    program = RealProgram(
        stage,
        victim,
        "torch_loader.py",
        *("--workers", "1", "--persistent", "--item", "ask", "--server", f"127.0.0.1:{port}"),
    )
    return Harm(Truth(victim, features), program.steps, partial(_late_items, server))


def _late_items(program: RealProgram, share: float, step_seconds: float) -> None:
    program.change(step_seconds / (1 - share) * 1e3 if share else QUICK_MS)


@graded("gil", real=True)
def gil(stage: Stage) -> Harm:
    """A second Python thread of the process computes for a part of every 200 ms."""
    victim = stage.tenant("victim")
    program = RealProgram(stage, victim, "gil.py")
    return Harm(Truth(victim), program.steps, lambda share, _: program.change(share))
