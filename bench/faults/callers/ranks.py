"""Faults of NCCL collectives. The victims are ranks of one communicator on this host, which wait for each
other in every step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from bench.faults.stage.fault import Truth, fault
from bench.faults.stage.stage import Place, Stage
from bench.faults.stage.workloads import Speed, latencies
from stalltop.demo.caller import Caller
from stalltop.demo.latencies import Latency

_STEP: Final = "cudaLaunchKernel:10 ncclAllReduce:1:6553600:7 cudaStreamSynchronize"
"""One step of a rank. It is short because all ranks compute at the same time: with more work, ranks would
also wait for a CPU on a host with two CPUs."""

_TRACED_SECONDS: Final = 1.5
"""Time between loading NCCL and making a communicator, in which stalltop attaches its probes. Ranks of a
communicator that was made before the probes were attached cannot be compared."""


def job(stage: Stage, ranks: int) -> tuple[list[Place], list[Caller]]:
    """Starts ``ranks`` processes, each in a container of its own, which meet in every step. Returns the
    containers and the processes."""
    meeting = stage.folder / f"meeting-{stage.chance.randrange(1 << 30)}"
    meeting.touch()
    durations = {
        **latencies(8),
        "cuStreamSynchronize": Latency("meet", ns=6e6, spread=float(ranks), path=meeting),
    }
    places = [stage.tenant(f"rank {rank}") for rank in range(ranks)]
    callers = [stage.process(place, "train.py", latencies=durations) for place in places]
    for caller in callers:
        caller.do("load cudaLaunchKernel ncclAllReduce")
    time.sleep(_TRACED_SECONDS)
    for rank, caller in enumerate(callers):
        caller.do(f"join {meeting.name} {rank} {ranks}")
    for caller in callers:
        caller.start(f"!200 {_STEP}")
    return places, callers


def remote_rank(stage: Stage, place: Place, speed: Speed) -> Caller:
    """Starts a process that seems to share a communicator with a rank on another host. There is no other
    host: the process waits as if for that rank. The factor in the file of ``speed`` scales the waits."""
    durations = latencies(8)
    durations["cuStreamSynchronize"] = replace(durations["cuStreamSynchronize"], path=speed.path)
    caller = stage.process(place, "train.py", latencies=durations)
    caller.do("load cudaLaunchKernel ncclAllReduce")
    time.sleep(_TRACED_SECONDS)
    caller.do(f"join elsewhere-{stage.chance.randrange(1 << 30)} 0 2")
    caller.start(f"!200 {_STEP}")
    return caller


@fault("nccl_straggler")
def nccl_straggler(stage: Stage) -> Iterator[Truth]:
    """One rank needs longer for its part of every step, and all others wait for it."""
    ranks = stage.whole("ranks", 2, 3)
    places, callers = job(stage, ranks)
    late = stage.whole("late_rank", 0, ranks - 1)
    pause_us = stage.whole("late_us", 15_000, 60_000)
    waiting = places[(late + 1) % ranks]
    yield Truth(waiting, places[late])
    callers[late].change(f"~{pause_us} {_STEP}")


@fault("nccl_hang", watch_seconds=30.0)
def nccl_hang(stage: Stage) -> Iterator[Truth]:
    """One rank stops making collectives, and all others wait for ever."""
    ranks = stage.whole("ranks", 2, 3)
    places, callers = job(stage, ranks)
    gone = stage.whole("gone_rank", 0, ranks - 1)
    yield Truth(places[(gone + 1) % ranks], places[gone])
    callers[gone].change("~600000000")


@fault("small_collectives")
def small_collectives(stage: Stage) -> Iterator[Truth]:
    """A program makes 200 collectives of small tensors in every step."""
    victim = stage.tenant("victim")
    caller = stage.process(victim, "train.py", latencies=latencies(8))
    caller.start(f"!200 {_STEP}")
    yield Truth(victim)
    count = stage.whole("elements", 256, 8192)
    caller.change(f"cudaLaunchKernel:10 ncclAllReduce:200:{count}:7 cudaStreamSynchronize")
