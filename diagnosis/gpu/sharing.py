"""Several tenants on one device, when nothing on the host explains why one waits longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from diagnosis.facts import Facts, Row
from diagnosis.families import Family
from diagnosis.gpu.device_faults import name_of
from diagnosis.gpu.usage import Usage, added, duration, figure
from diagnosis.suspicion import Suspicion
from model.chain import Fix, Link
from model.device import Device

LONGER: Final = 1.5
"""Median of a wait over its normal one before the device counts as taken: batches of usual sizes differ by
less."""
CALLS: Final = 30
"""Waits in the window, so that their median is more than chance."""
WITHOUT_CAUSE: Final = 0.9
"""Part of the waits that is waiting for the device, and not for a CPU, a disk or memory."""
MORE: Final = 0.5
"""What others give the device more than before, over all that it had before: work that makes waits longer by
half is at least half as much again."""
NEW_SECONDS: Final = 10.0
"""What lies further back is before; the waits that are looked at are of the last seconds."""
WATCHED_SECONDS: Final = 20.0
"""So long a process has to be watched before anything can be told from what was before."""
MOST_NEIGHBOURS: Final = 3


def gpu_neighbours(facts: Facts, device: Device, users: Sequence[Usage]) -> Iterator[Suspicion]:
    """One tenant's waits became longer when others began to give the same device more work."""
    computing = {process.pid for process in device.processes if "C" in process.kind}
    users = [usage for usage in users if usage.pid in computing]
    for usage in users:
        row = _longer(usage)
        if row is None or row.normal_p50_ns is None:
            continue
        before = _before(facts, usage, users)
        if not before:
            continue
        risen = {
            other.pid: other.per_second(other.kernels) - before[other.pid]
            for other in users
            if other.tenant != usage.tenant
        }
        neighbours = [other for other in users if risen.get(other.pid, 0.0) > 0]
        enough = sum(risen[other.pid] for other in neighbours) >= MORE * sum(before.values())
        lost = float(row.calls * (row.p50_ns - row.normal_p50_ns))
        if neighbours and enough and usage.noticeable(lost):
            neighbours.sort(key=lambda other: risen[other.pid], reverse=True)
            yield _shared(facts, device, usage, row, neighbours, lost)


def _before(facts: Facts, usage: Usage, users: Sequence[Usage]) -> dict[int, float]:
    """Kernels a second that each of ``users`` gave the device before, since ``usage`` is watched; nothing
    where that is not for long."""
    now = facts.window.end
    watched = [time for time, _ in facts.trend("kernels_per_s", usage.tenant, usage.pid)]
    if not watched or now - watched[0] < WATCHED_SECONDS:
        return {}
    points = sum(time < now - NEW_SECONDS for time in watched)

    def usual(other: Usage) -> float:
        values = [
            value
            for time, value in facts.trend("kernels_per_s", other.tenant, other.pid)
            if watched[0] <= time < now - NEW_SECONDS
        ]
        # Points are missing where it made no call: it gave the device nothing then.
        return sum(values) / max(points, len(values), 1)

    return {other.pid: usual(other) for other in users}


def _longer(usage: Usage) -> Row | None:
    """Its most important kind of wait, where that takes longer than normal and nothing on the host explains
    it."""
    rows = usage.of(Family.SYNC).rows
    if not rows:
        return None
    row = rows[0]
    calls = added(usage.facts, (row,))
    if row.normal_p50_ns is None or row.calls < CALLS or row.p50_ns < LONGER * row.normal_p50_ns:
        return None
    return row if calls.waited_ns >= WITHOUT_CAUSE * calls.total_ns else None


def _shared(
    facts: Facts,
    device: Device,
    usage: Usage,
    row: Row,
    neighbours: Sequence[Usage],
    lost: float,
) -> Suspicion:
    gpu = name_of(device)
    mps = any(process.kind == "M+C" for process in device.processes)
    links = [
        Link(
            "mechanism",
            f"waits take {duration(row.p50_ns)} instead of {duration(row.normal_p50_ns or 0)} in the "
            f"median; {gpu} is " + ("shared through MPS" if mps else "time-sliced between its processes"),
            share=1.0,
            ns_per_s=facts.per_second(lost),
            tenant=usage.tenant,
            pid=usage.pid,
            process=usage.process,
            device=gpu,
        ),
        *(
            Link(
                "culprit",
                f"{other.who} gives {gpu} {figure(other.per_second(other.kernels))} kernels a second, more "
                "than before",
                tenant=other.tenant,
                pid=other.pid,
                process=other.process,
                device=gpu,
                depth=2,
            )
            for other in neighbours[:MOST_NEIGHBOURS]
        ),
    ]
    first = neighbours[0]
    return usage.suspect(
        "gpu_neighbours",
        f"{usage.who} waits longer for {gpu}, which {facts.name(first.tenant)} uses, too",
        lost,
        confidence=0.6,
        links=links,
        fixes=(
            Fix(
                f"give {facts.name(usage.tenant)} and {facts.name(first.tenant)} different devices "
                "(CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES), or MIG instances of their own",
                f"nvidia-smi -i {device.index} mig -lgip",
            ),
            Fix(
                "with MPS bound each client: CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
                if mps
                else "where both have to stay: MPS instead of time slicing, with "
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
            ),
        ),
        hit=added(facts, (row,)),
        about=gpu,
        unknown=("how much of the device each of them takes: the driver does not tell",),
    )
