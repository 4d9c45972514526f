"""Describes losses in data loading, which `diagnosis.attribution` finds. A caller waits for workers, and the
workers wait for a disk, a CPU or a lock, or they sleep."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from stalltop.diagnosis.attribution.losses import Loss
from stalltop.diagnosis.attribution.threads import ThreadGraph
from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host import disk, locks
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.host.steps import blamed
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.wording.culprits import main_process, named, ranked
from stalltop.diagnosis.wording.looks import at_line
from stalltop.model.chain import Fix, Link
from stalltop.model.telling import Telling
from stalltop.model.text.words import numbered, program

SURE: Final = 0.9
"""Confidence that the caller waits for the workers' results: the workers are seen to wake it.

It is multiplied by ``Loss.sure``, the part of the loss that is measured directly. How the workers spent their
time is known only for all their results together, also for those for which nobody waited.
"""


LOADER_WORKERS: Final = "DataLoader(num_workers=…)"
WORKERS: Final = f"{LOADER_WORKERS}, Pool(processes=…), n_jobs=…, or another process that prepares data"
"""How the number of worker processes is set: in PyTorch, in multiprocessing, and in joblib."""
LEAST_IDLE_CPUS: Final = 1.0
"""If less than this of the host's CPUs is idle, more workers would only wait for them: a worker that computes
all the time takes one CPU."""


def short_of_cpu(facts: Facts, loss: Loss) -> Description:
    """Describes workers that compute all the time."""
    worker = loss.last
    culprits = ranked(loss.culprits, loss.ns, loss.first)
    process, system = facts.process(worker.pid), facts.window.system
    factors = []
    if process is not None and system is not None and 0 < process.allowed_cpus < system.cpus:
        text = f"{worker.process} may run on {process.allowed_cpus} of {system.cpus} CPUs"
        factors.append(link_of(worker, "factor", text))
    links = (*blamed(facts, loss, "computes all the time", culprits, len(loss.path) + 2), *factors)
    confidence = SURE * loss.sure
    if worker.pid == loss.victim.pid:
        return _thread(facts, loss, "computes", links, confidence)
    look = at_line(facts, worker, "computes")
    less = Fix(
        "make samples cheaper: decode and augment beforehand, or on the GPU (DALI)",
        short="make samples cheaper: decode beforehand",
    )
    busy = system.cpu_percent if system is not None else 0.0
    if system is not None and system.cpus * (1 - busy / 100) < LEAST_IDLE_CPUS:
        text = f"{less.text}; more workers do not help: the {system.cpus} CPUs are {busy:.0f}% busy"
        fixes: tuple[Fix, ...] = (replace(less, text=text), look)
    else:
        more = f"use more workers, {_workers(worker.process)}; CPUs are {busy:.0f}% busy"
        fixes = (Fix(more, short="use more workers: CPUs are idle"), look, less)
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for data that {worker.process} computes",
        links=links,
        fixes=fixes,
        confidence=confidence,
    )


def _workers(process: str) -> str:
    """Returns how the number of processes called ``process`` is set."""
    return LOADER_WORKERS if process == "pt_data_worker" else WORKERS


def _thread(facts: Facts, loss: Loss, doing: str, links: tuple[Link, ...], confidence: float) -> Description:
    """Describes a wait for another thread of the victim's process; ``doing`` says what that thread does. The
    thread may prepare data, or hold a lock that is a semaphore, as Python's locks are."""
    worker = loss.last
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for another thread of {worker.process}, "
        f"which {doing}",
        links=links,
        fixes=(
            at_line(facts, worker, f"waits, and at which line the other thread {doing}"),
            Fix(
                "if it prepares data, use more threads, or processes where threads share the GIL; "
                "if it holds a lock, let it hold the lock for a shorter time"
            ),
        ),
        confidence=confidence,
        title=f"Another thread {doing}",
        unknown=("whether it prepares what the caller waits for, or holds a lock meanwhile",),
    )


def short_of_disk(facts: Facts, loss: Loss) -> Description:
    """Describes workers that wait for a disk."""
    worker = loss.last
    found = disk.load(facts, loss)
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for data that {worker.process} reads from "
        f"{found.device or 'disk'}",
        links=found.links,
        fixes=(
            *found.fixes,
            Fix(f"use more workers and read further ahead: {WORKERS}, DataLoader(prefetch_factor=…)"),
            Fix("keep the data in memory or on a local, faster disk"),
        ),
        confidence=found.sure * loss.sure,
        unknown=found.unknown,
    )


def short_of_lock(facts: Facts, loss: Loss) -> Description:
    """Describes workers that wait for a lock."""
    worker = loss.last
    culprits = ranked(loss.culprits, loss.ns, loss.first)
    holder = main_process(loss.culprits, culprits) if culprits else worker
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for {worker.process}, which waits for a lock that "
        f"{named(facts, holder)} holds",
        links=tuple(blamed(facts, loss, "holds the lock", culprits, len(loss.path) + 2)),
        fixes=(
            at_line(facts, holder, "holds the lock"),
            Fix(f"let {program(holder.process, holder.pid)} hold the lock for a shorter time"),
            Fix("let workers need no lock: give each worker a file, index or cache of its own"),
        ),
        confidence=SURE * loss.sure * min(sum(loss.culprits.values()) / loss.ns, 1.0),
    )


def asleep(facts: Facts, loss: Loss) -> Description:
    """Describes workers that sleep because their own code does so."""
    worker = loss.last
    if worker.pid == loss.victim.pid:
        return _thread(facts, loss, "sleeps", (), SURE * loss.sure)
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for data while {worker.process} sleeps",
        links=(),
        fixes=(
            at_line(facts, worker, "sleeps"),
            Fix("take the sleep out of the data set's code: a rate limit, a retry, a poll of a queue"),
            Fix(f"use more workers, whose sleeps overlap: {_workers(worker.process)}"),
        ),
        confidence=SURE * loss.sure,
    )


def workers_restarted(facts: Facts, loss: Loss) -> Description:
    """Describes workers that end and start again, as some programs do at each epoch."""
    use = facts.use(loss.victim.tenant)
    startups = sorted(ThreadGraph(facts).startups().values())
    count = use.exits if use is not None else 0
    text = f"{numbered(count, 'process', 'processes')} ended in {facts.seconds:.1f} s"
    if startups:
        typical_ms = startups[len(startups) // 2] / 1e6
        text += (
            f", and {len(startups)} started; half of these took {typical_ms:.0f} ms or more until their "
            "first result"
        )
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits while its workers are started again",
        links=(link_of(loss.victim, "factor", text, depth=2),),
        fixes=(
            Fix(
                "keep the workers: DataLoader(persistent_workers=True), or one Pool or ProcessPoolExecutor "
                "for the whole run",
                short="keep workers: DataLoader(persistent_workers=True)",
            ),
            Fix("make epochs longer, or workers quicker to start: import less, open files at the first item"),
        ),
        confidence=SURE * loss.sure,
    )


CAUSES: Final = (
    HostCause(
        Cause(
            "loader_disk",
            "Data loader waits for a disk",
            "the GPU waits for workers that wait for a disk",
            Telling(
                "keeps {device} busy, so data loading waits",
                "waits for data from {device}",
                device="the disk",
                parts=("lock", "process", "network", "sleep"),
            ),
        ),
        short_of_disk,
        culprits=disk.users,
    ),
    HostCause(
        Cause(
            "loader_cpu",
            "Data loader is CPU-bound",
            "the GPU waits for workers that compute all the time",
            Telling(
                "prepares data too slowly",
                "waits for data that its workers compute",
                parts=("lock", "process", "network", "sleep"),
            ),
        ),
        short_of_cpu,
    ),
    HostCause(
        Cause(
            "loader_lock",
            "Data loader waits for a lock",
            "the GPU waits for workers that wait for a lock",
            Telling(
                "holds a lock that its data loader needs",
                "waits for a data loader that waits for a lock",
                parts=("lock", "process", "network", "sleep"),
            ),
        ),
        short_of_lock,
        culprits=locks.holders,
    ),
    HostCause(
        Cause(
            "loader_sleep",
            "Data loader sleeps",
            "the GPU waits for workers that sleep, for example to keep a rate limit",
            Telling(
                "sleeps instead of loading data",
                "waits for a data loader that sleeps",
                parts=("lock", "process", "network", "sleep"),
            ),
        ),
        asleep,
    ),
    HostCause(
        Cause(
            "workers_restarted",
            "Data loader workers restarting",
            "the GPU waits while worker processes end and new ones start",
            Telling(
                "starts its workers again and again",
                "waits while its data loader starts workers again",
                parts=("lock", "process", "network", "sleep"),
            ),
        ),
        workers_restarted,
    ),
)
