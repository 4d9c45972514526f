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
from model.device import Device, DeviceProcess

LONGER: Final = 1.5
"""Median of a wait over its normal one before the device counts as taken: batches of usual sizes differ by
less."""
CALLS: Final = 30
"""Waits in the window, so that their median is more than chance."""
WITHOUT_CAUSE: Final = 0.9
"""Part of the waits that is waiting for the device, and not for a CPU, a disk or memory."""
MOST_NEIGHBOURS: Final = 3


def gpu_neighbours(facts: Facts, device: Device, users: Sequence[Usage]) -> Iterator[Suspicion]:
    """One tenant's waits became longer while others work on the same device."""
    computing = [process for process in device.processes if "C" in process.kind]
    by_pid = {usage.pid: usage for usage in users}
    for usage in users:
        neighbours = [
            process
            for process in computing
            if process.pid != usage.pid and process.tenant != usage.tenant and _works(by_pid.get(process.pid))
        ]
        row = _longer(usage)
        if not neighbours or row is None or row.normal_p50_ns is None:
            continue
        lost = float(row.calls * (row.p50_ns - row.normal_p50_ns))
        if usage.noticeable(lost):
            yield _shared(facts, device, usage, row, neighbours, by_pid, lost)


def _works(usage: Usage | None) -> bool:
    """Whether a neighbour gives the device work; one that is not traced may."""
    return usage is None or usage.of(Family.LAUNCH, Family.GRAPH_LAUNCH).calls > 0


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
    neighbours: Sequence[DeviceProcess],
    by_pid: dict[int, Usage],
    lost: float,
) -> Suspicion:
    gpu = name_of(device)
    mps = any(process.kind == "M+C" for process in device.processes)

    def launches(process: DeviceProcess) -> float:
        other = by_pid.get(process.pid)
        return other.per_second(other.of(Family.LAUNCH, Family.GRAPH_LAUNCH).calls) if other else 0.0

    ordered = sorted(neighbours, key=launches, reverse=True)
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
                (f"{by_pid[process.pid].process} " if process.pid in by_pid else "")
                + f"(pid {process.pid}) of {facts.name(process.tenant)} is on {gpu}, too"
                + (f", {figure(launches(process))} launches a second" if process.pid in by_pid else ""),
                tenant=process.tenant,
                pid=process.pid,
                process=by_pid[process.pid].process if process.pid in by_pid else "",
                device=gpu,
                depth=2,
            )
            for process in ordered[:MOST_NEIGHBOURS]
        ),
    ]
    first = ordered[0]
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
