"""Finds tenants that slow each other down on a shared device, if no fault of the host or of the device
explains their longer waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from stalltop.diagnosis.blame import in_order, remembered, rest
from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Process, Who, link_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import DeviceCalls, Usage
from stalltop.diagnosis.wording.figures import duration, figure
from stalltop.model.chain import OTHERS, Fix, Link
from stalltop.model.devices.device import Device, MigInstance
from stalltop.model.families import WAITING_PARTS, Family
from stalltop.model.sharing.placing import processes_on
from stalltop.model.sharing.ways import way_of
from stalltop.model.telling import Telling

CAUSES: Final = (
    Cause(
        "gpu_neighbours",
        "GPU shared with other tenants",
        "other tenants launch on the same device",
        Telling("uses {device}, too", "waits for {device}, which others use, too"),
    ),
)

LONGER: Final = 1.5
"""Waits for the device are reported only if they are longer than before by at least this factor. Time that
the host adds to the waits does not count. Batches of usual sizes differ by less."""
CALLS: Final = 30
"""Least number of waits in the window. The mean of fewer waits is too much a matter of chance."""
MORE: Final = 0.5
"""Other tenants are to blame only if they give the device more work than before, and if the increase is at
least this part of all earlier work of the device. Waits get 1.5 times as long (``LONGER``) only if the device
has at least 1.5 times as much work."""
NEW_SECONDS: Final = 10.0
"""Figures older than this, s, are the earlier figures with which those of the last few seconds are
compared."""
WATCHED_SECONDS: Final = 20.0
"""The earlier waits of a process are used only if the process was watched for at least this many seconds."""
MOST_NEIGHBOURS: Final = 3


def gpu_neighbours(facts: Facts, device: Device, users: Sequence[Usage]) -> Iterator[Suspicion]:
    """Yields tenants whose waits for a device became longer when other tenants began to give it more work. If
    the earlier waits of a process are not known, because it has not been watched for long enough, its waits
    are compared with its baseline instead.

    MIG instances of a device are separate: only tenants on the same instance are neighbours.
    """
    for place in device.instances or (device,):
        computing = {process.pid for process in processes_on(device, place) if "C" in process.kind}
        together = [usage for usage in users if usage.pid in computing]
        if len({usage.tenant for usage in together}) > 1:
            yield from _neighbours(facts, device, place, together)


def _neighbours(
    facts: Facts, device: Device, place: Device | MigInstance, users: Sequence[Usage]
) -> Iterator[Suspicion]:
    for usage in users:
        waits = usage.of(Family.SYNC)
        usual_ns = _usual_wait_ns(facts, usage)
        kept = not usual_ns
        if kept:
            usual_ns = _kept_wait_ns(waits)
        if not usual_ns or waits.calls < CALLS or waits.waited_ns < LONGER * usual_ns * waits.calls:
            continue
        lost = waits.waited_ns - usual_ns * waits.calls
        # How much work other tenants gave in earlier runs is not known, so all their present work counts as
        # new.
        before = {usage.pid: usage.per_second(usage.kernels)} if kept else _before(facts, usage, users)
        risen = {
            other.pid: other.per_second(other.kernels) - before.get(other.pid, 0.0)
            for other in users
            if other.tenant != usage.tenant
        }
        neighbours = [other for other in users if risen.get(other.pid, 0.0) > 0]
        enough = sum(risen[other.pid] for other in neighbours) >= MORE * sum(before.values())
        if neighbours and enough and usage.noticeable(lost):
            blame = facts.blame("gpu_neighbours", usage.tenant, f"GPU {place.label}")
            now = {_who(other): risen[other.pid] for other in neighbours}
            taken = remembered(blame.taken.get(usage.pid, {}), now, facts.pids)
            by_who = {_who(other): other for other in neighbours}
            neighbours = [by_who[who] for who in in_order(by_who, taken, blame.first)]
            shared = _shared(facts, device, place, usage, waits, usual_ns, neighbours, kept=kept)
            yield replace(shared, taken={usage.pid: taken})


def _who(usage: Usage) -> Who:
    return Who(usage.tenant, usage.pid, usage.process)


def _kept_wait_ns(waits: DeviceCalls) -> float:
    """Returns the mean time of ``waits`` according to the baselines of their rows, ns; 0 if a row has no
    baseline. The baselines were learned in earlier runs, or in at least half a minute of this run."""
    if any(row.usual_ns is None or row.normal_p50_ns is None for row in waits.rows):
        return 0.0
    usual = sum(
        row.usual_ns[part] * row.calls for row in waits.rows if row.usual_ns for part in WAITING_PARTS
    )
    return usual / waits.calls if waits.calls else 0.0


def _usual_wait_ns(facts: Facts, usage: Usage) -> float:
    """Returns how long one wait of a process for the device took before the last ``NEW_SECONDS``, ns: the
    median of the means of single windows. Returns 0 if the process has not been watched for long enough."""
    trend = facts.trend("device_wait_ns", usage.tenant, usage.pid)
    if not trend or facts.window.end - trend[0][0] < WATCHED_SECONDS:
        return 0.0
    values = [value for time, value in trend if time < facts.window.end - NEW_SECONDS]
    return median(values) if values else 0.0


def _before(facts: Facts, usage: Usage, users: Sequence[Usage]) -> dict[int, float]:
    """Returns how many CUDA kernels per second each of ``users`` gave the device on average, from the time at
    which ``usage`` was first watched until ``NEW_SECONDS`` ago."""
    now = facts.window.end
    watched = [time for time, _ in facts.trend("kernels_per_s", usage.tenant, usage.pid)]
    start = watched[0] if watched else now
    points = sum(time < now - NEW_SECONDS for time in watched)

    def usual(other: Usage) -> float:
        values = [
            value
            for time, value in facts.trend("kernels_per_s", other.tenant, other.pid)
            if start <= time < now - NEW_SECONDS
        ]
        # A process without a point for some time made no call in that time, and gave the device nothing.
        return sum(values) / max(points, len(values), 1)

    return {other.pid: usual(other) for other in users}


def _shared(
    facts: Facts,
    device: Device,
    place: Device | MigInstance,
    usage: Usage,
    waits: DeviceCalls,
    usual_ns: float,
    neighbours: Sequence[Usage],
    *,
    kept: bool,
) -> Suspicion:
    gpu = f"GPU {place.label}"
    lost = waits.waited_ns - usual_ns * waits.calls
    mps = way_of(place) == "mps"
    links = [
        link_of(
            usage,
            "mechanism",
            f"a wait takes {duration(waits.waited_ns / waits.calls)} instead of {duration(usual_ns)}; "
            f"{gpu} is " + ("shared through MPS" if mps else "time-sliced between its processes"),
            share=1.0,
            ns_per_s=facts.per_second(lost),
            device=gpu,
        ),
        *(
            link_of(
                other,
                "culprit",
                f"{other.who} gives {gpu} {figure(other.per_second(other.kernels))} kernels a second"
                + ("" if kept else ", more than before"),
                device=gpu,
                depth=2,
            )
            for other in neighbours[:MOST_NEIGHBOURS]
        ),
    ]
    if len(neighbours) > MOST_NEIGHBOURS:
        everyone = [_who(other) for other in neighbours]
        text = rest(everyone, everyone[:MOST_NEIGHBOURS])
        links.append(Link("culprit", text, process=OTHERS, device=gpu, depth=2))
    first = neighbours[0]
    return usage.suspect(
        "gpu_neighbours",
        f"{usage.who} waits longer for {gpu}, which {facts.name(first.tenant)} uses, too",
        lost,
        confidence=0.4 if kept else 0.6,
        links=links,
        fixes=apart(facts, device, usage, first, mps=mps),
        hit=waits,
        about=gpu,
        unknown=(
            "how much of the device each tenant takes: the driver does not report it",
            *(
                ("whether these tenants also used the device in an earlier run, when waits were shorter",)
                if kept
                else ()
            ),
        ),
    )


def apart(facts: Facts, device: Device, usage: Usage, first: Process, *, mps: bool) -> tuple[Fix, ...]:
    """Returns how to separate ``usage`` and ``first``, which share ``device``; first what this host makes
    possible without a reconfiguration."""
    one, other = facts.name(usage.tenant), facts.name(first.tenant)
    several = sum(not device.lost for device in facts.window.devices.devices) > 1
    different = f"give {one} and {other} different GPUs (CUDA_VISIBLE_DEVICES)"
    mig = Fix(
        f"give {one} and {other} MIG instances of their own: see which there are",
        f"nvidia-smi -i {device.index} mig -lgip",
        look=True,
    )
    limited = (
        f"limit the share of {other}: CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
        if mps
        else f"restart {one} and {other} as MPS clients, so that both run at once; "
        f"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE limits {other}"
    )
    return (
        *((Fix(different, short="give each a GPU of its own (CUDA_VISIBLE_DEVICES)"),) if several else ()),
        Fix(limited, short="limit its share: CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
        if mps
        else Fix(limited, "nvidia-cuda-mps-control -d", short="start MPS, then restart both as its clients"),
        *((mig,) if device.mig is not None else ()),
    )
