"""Faults of jobs of several ranks, and of pools of threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bench.faults.callers.host import CPUS
from bench.faults.real.running import RealProgram, free_port
from bench.faults.stage.fault import Truth, fault
from bench.faults.stage.stage import Place, Stage

RANK_MS: Final = 0.5
"""Before the fault, each rank computes for this long in each step. It is short, so that two ranks and the
threads of gloo leave two CPUs idle for much of the time. Otherwise a rank often waits for a CPU that the
other rank has, as the diagnosis then rightly reports."""


def _ranks(stage: Stage, *places: Place, options: Sequence[str] = ()) -> list[RealProgram]:
    port = str(free_port())
    ranks = [
        RealProgram(
            stage,
            place,
            "ranks.py",
            *("--rank", str(number), "--ranks", str(len(places)), "--port", port, *options),
            numbers=(RANK_MS,),
            wait=False,
        )
        for number, place in enumerate(places)
    ]
    for rank in ranks:
        rank.wait_until_ready()
    return ranks


@fault("late_rank", "gloo-late-rank")
def late_rank(stage: Stage) -> Iterator[Truth]:
    """One of two ranks (torch.distributed, gloo) of one container computes for 25 to 60 ms in each step."""
    victim = stage.tenant("victim")
    late = stage.whole("late", 0, 1)
    ranks = _ranks(stage, victim, victim)
    yield Truth(victim)
    ranks[late].change(stage.between("ms", 25, 60))


@fault("late_rank", "gloo-late-container")
def late_container(stage: Stage) -> Iterator[Truth]:
    """One of two ranks (torch.distributed, gloo), each in its own container, computes for 25 to 60 ms in each
    step."""
    places = [stage.tenant("rank 0"), stage.tenant("rank 1")]
    late = stage.whole("late", 0, 1)
    ranks = _ranks(stage, *places)
    yield Truth(places[1 - late], places[late])
    ranks[late].change(stage.between("ms", 25, 60))


@fault("late_rank", "gloo-late-loader")
def late_loader(stage: Stage) -> Iterator[Truth]:
    """One of two ranks (torch.distributed, gloo), each in its own container, waits for the worker of its
    DataLoader, which computes for 25 to 60 ms for each step."""
    places = [stage.tenant("rank 0"), stage.tenant("rank 1")]
    late = stage.whole("late", 0, 1)
    ranks = _ranks(stage, *places, options=("--loader",))
    yield Truth(places[1 - late], places[late])
    ranks[late].change(stage.between("ms", 25, 60))


def _thread_pool(stage: Stage, place: Place, threads: int) -> RealProgram:
    pool = stage.one_of("pool", ("torch", "onnx"))
    return RealProgram(stage, place, "thread_pool.py", "--pool", pool, numbers=(float(threads),))


@fault("cpu_contention", "threads-beside-hog")
def threads_beside_a_hog(stage: Stage) -> Iterator[Truth]:
    """Another tenant computes on all CPUs beside a program that prepares batches in a pool of threads, of
    PyTorch or of ONNX Runtime."""
    victim = stage.tenant("victim")
    _thread_pool(stage, victim, CPUS)
    hog = stage.tenant("hog")
    hogs = stage.whole("hogs_per_cpu", 2, 4)
    yield Truth(victim, hog)
    stage.process(hog, "batch", "!5000", threads=hogs * CPUS)


@fault("own_threads", "threads-too-many")
def too_many_threads(stage: Stage) -> Iterator[Truth]:
    """A pool of threads, of PyTorch or of ONNX Runtime, gets four to eight threads for each CPU."""
    victim = stage.tenant("victim")
    program = _thread_pool(stage, victim, 1)
    yield Truth(victim)
    program.change(float(CPUS * stage.whole("threads_per_cpu", 4, 8)))
