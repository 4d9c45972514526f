"""Recognizes the healthy case, a loop that is GPU-bound. If the device is shared, also says what can be known
about the waits of the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.evidence.sockets import loses_segments
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import SECOND_NS, Usage
from stalltop.diagnosis.wording.figures import duration
from stalltop.model.chain import Fix
from stalltop.model.families import Family
from stalltop.model.sharing.sharing import Sharer, Sharing, sharings
from stalltop.model.telling import Telling

CAUSES: Final = (
    Cause(
        "gpu_bound",
        "Limited by the GPU (normal)",
        "calls wait for the program's own work on the device",
        Telling("waits for its own work on {device}", "waits for its own work on {device}"),
        fault=False,
    ),
)

BOUND_SHARE: Final = 0.5
"""A process is GPU-bound only if waits for the device take at least this part of the time of its calling
threads."""
WITHOUT_CAUSE: Final = 0.9
"""A process is GPU-bound only if at least this part of its synchronizing calls' time is spent waiting for the
device, and not for a CPU, a disk or memory."""
IDLE_PERCENT: Final = 50.0
"""A process is not GPU-bound if its device has a lower utilization, percent: it waits for something else."""
MOST_OTHERS: Final = 3
"""Maximum number of tenants of a shared device that are named."""


def gpu_bound(facts: Facts, usages: Sequence[Usage], faults: Sequence[Suspicion]) -> Iterator[Suspicion]:
    """Yields processes whose threads wait for the device most of the time. This is healthy if nobody else
    uses the device.

    ``faults`` are the faults that rules found in the device and in its use. Time that faults add to the waits
    does not count.
    """
    lost = {usage.pid: _lost_ns(usage, faults) for usage in usages}
    bound = [usage for usage in usages if _is_bound(usage, lost[usage.pid])]
    shared = [place for place in _places(facts) if place.shared] if bound else []
    for usage in bound:
        at = next((place for place in shared if _own(place, usage)), None)
        # With the log of context switches, the time of others is among the faults.
        if at is None or at.switches_per_second is not None:
            found = _of_its_own(usage, lost[usage.pid])
        else:
            found = _among_others(usage, at)
        yield replace(found, lost_ns_per_s=found.lost_ns_per_s - usage.per_second(lost[usage.pid]))


def _lost_ns(usage: Usage, faults: Sequence[Suspicion]) -> float:
    """Returns by how many ns ``faults`` make the synchronizations of a process longer."""
    time_ns = {row.key: row.total_ns for row in usage.of(Family.SYNC).rows}
    others = {row.key: row.total_ns for row in usage.copies().rows}
    lost = 0.0
    for fault in faults:
        hit = {fault.effect, *fault.rows}
        if synced := sum(ns for key, ns in time_ns.items() if key in hit):
            # A fault may also make copies longer.
            copied = sum(ns for key, ns in others.items() if key in hit)
            lost += fault.lost_ns_per_s * synced / (synced + copied)
    return lost * usage.facts.seconds


def _is_bound(usage: Usage, lost_ns: float) -> bool:
    waits = usage.of(Family.SYNC)
    if waits.total_ns - lost_ns < BOUND_SHARE * usage.wall_ns:
        return False
    if waits.waited_ns < WITHOUT_CAUSE * waits.total_ns:
        return False
    busy = usage.utilization_percent
    if busy is not None and busy < IDLE_PERCENT:
        return False
    # A collective that waits for a TCP connection may look as if the device were working.
    return not loses_segments(usage.facts, usage.pid)


def _of_its_own(usage: Usage, lost_ns: float) -> Suspicion:
    """Returns the suspicion for a process that waits for its own work, apart from ``lost_ns`` of its
    waits."""
    waits = usage.of(Family.SYNC)
    share = (waits.total_ns - lost_ns) / usage.wall_ns
    return usage.suspect(
        "gpu_bound",
        f"{usage.who} waits for the work it gave the device, {100 * share:.0f}% of its time",
        waits.waited_ns,
        confidence=share,
        links=(usage.step(f"waits of {duration(waits.mean_ns)}", waits, waits.total_ns),),
        fixes=(Fix(f"if it has no other problem, the device itself is the limit: {_FASTER}"),),
        hit=waits,
        unknown=(_NOT_TIMED,),
        verb="spends",
    )


def _among_others(usage: Usage, place: Sharing) -> Suspicion:
    """Returns the suspicion for a process on a shared device. Its waits for its own work and for the work of
    other tenants cannot be told apart."""
    waits = usage.of(Family.SYNC)
    own, gpu = _own(place, usage), f"GPU {place.label}"
    assert own is not None
    number = len(place.sharers) - 1
    others = "another tenant uses" if number == 1 else f"{number} other tenants use"
    links = [usage.step(f"waits of {duration(waits.mean_ns)} for {gpu}", waits, waits.total_ns)]
    if together := _together(usage.facts, own):
        text = f"on {gpu} together with {together} of the time"
        links.append(link_of(usage, "reason", text, device=gpu, depth=2))
    return usage.suspect(
        "gpu_bound",
        f"{usage.who} waits for {gpu}, which {others}, too",
        waits.waited_ns,
        confidence=waits.total_ns / usage.wall_ns,
        links=links,
        fixes=(
            Fix(
                "to know how long it waits for its own work, run it alone: on a device of its own, or on a "
                "MIG instance of its own"
            ),
            Fix(f"if it waits as long alone: {_FASTER}"),
        ),
        hit=waits,
        unknown=("how much of this wait is for the work of other tenants on that device", _NOT_TIMED),
        verb="spends",
    )


_FASTER: Final = (
    "faster CUDA kernels, lower precision or a faster device help; Nsight Compute and the PyTorch profiler "
    "show which CUDA kernels take the time"
)
_NOT_TIMED: Final = "what the device does meanwhile: CUDA kernels are not timed"


def _places(facts: Facts) -> Iterator[Sharing]:
    for sharing in sharings(facts.window):
        yield from sharing.parts or (sharing,)


def _own(place: Sharing, usage: Usage) -> Sharer | None:
    return next((one for one in place.sharers if usage.pid in one.pids), None)


def _together(facts: Facts, own: Sharer) -> str:
    """Returns which tenants were active in the same milliseconds as ``own``, each with the share of the
    window in which both were active: ``serve 62%, batch 10%``."""
    parts = [
        f"{facts.name(tenant)} {100 * ns / (facts.seconds * SECOND_NS):.0f}%"
        for tenant, ns in own.overlaps[:MOST_OTHERS]
        if ns
    ]
    return ", ".join(parts)
