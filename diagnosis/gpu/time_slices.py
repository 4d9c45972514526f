"""Finds tenants that wait for a time-sliced GPU while it executes other tenants, where the driver's log of
context switches says which process had the GPU for how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from stalltop.diagnosis.blame import STAYS_FIRST, remembered, rest
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.gpu.sharing import MOST_NEIGHBOURS, apart
from stalltop.diagnosis.links import Who, link_of, who_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import DeviceCalls, Usage, added
from stalltop.diagnosis.wording.figures import duration, figure
from stalltop.model.chain import OTHERS, Link
from stalltop.model.devices.device import Device
from stalltop.model.families import Family
from stalltop.model.sharing.ways import takes_turns
from stalltop.model.text.words import program_of


def gpu_time_slices(facts: Facts, device: Device, users: Sequence[Usage]) -> Iterator[Suspicion]:
    """Yields tenants that waited for ``device`` while it executed others.

    A process loses the time in which its threads waited for the device and the device did not execute the
    process, but at most the time in which the device executed others.
    """
    if not takes_turns(device, facts.seconds):
        return
    resident = {one.pid: one for one in device.processes if one.resident_ns}
    for usage in users:
        own = resident.get(usage.pid)
        others = {who_of(one): float(one.resident_ns or 0) for one in resident.values() if one is not own}
        taken = {who: ns for who, ns in others.items() if not who.tenant or who.tenant != usage.tenant}
        waits = added(facts, [*usage.of(Family.SYNC).rows, *usage.copies("DtoH").rows])
        elsewhere_ns = min(waits.waited_ns - (own.resident_ns or 0 if own else 0), sum(others.values()))
        if not taken or elsewhere_ns <= 0:
            continue
        lost = elsewhere_ns * sum(taken.values()) / sum(others.values())
        if not usage.noticeable(lost):
            continue
        blame = facts.blame("gpu_neighbours", usage.tenant, f"GPU {device.label}")
        sums = remembered(blame.taken.get(usage.pid, {}), taken, facts.pids)
        order = sorted(
            taken, key=lambda who: sums[who] * (STAYS_FIRST if who == blame.first else 1.0), reverse=True
        )
        told = _waits(facts, device, usage, waits, lost, {who: taken[who] for who in order})
        yield replace(told, taken={usage.pid: sums})


def _waits(
    facts: Facts, device: Device, usage: Usage, waits: DeviceCalls, lost: float, taken: Mapping[Who, float]
) -> Suspicion:
    """Returns the suspicion that ``usage`` loses ``lost`` ns to the processes ``taken``, the largest first,
    each with the time in ns in which the device executed it."""
    gpu, wall_ns = f"GPU {device.label}", facts.seconds * 1e9
    switches = facts.per_second(device.context_switches or 0)
    everyone = list(taken)
    first, named = everyone[0], everyone[:MOST_NEIGHBOURS]
    links = [
        link_of(
            usage,
            "mechanism",
            f"waits for {gpu} take {duration(facts.per_second(waits.waited_ns))} of each second; for "
            f"{duration(facts.per_second(lost))} of these, {gpu} executes others: it is time-sliced, with "
            f"{figure(switches)} context switches a second",
            share=1.0,
            ns_per_s=facts.per_second(lost),
            device=gpu,
        ),
        *(
            link_of(
                who,
                "culprit",
                f"{gpu} executes {_name(facts, who)} for {min(100 * taken[who] / wall_ns, 100):.0f}% of the time",
                share=taken[who] / sum(taken.values()),
                device=gpu,
                depth=2,
            )
            for who in named
        ),
    ]
    if len(everyone) > len(named):
        links.append(Link("culprit", rest(everyone, named), process=OTHERS, device=gpu, depth=2))
    return usage.suspect(
        "gpu_neighbours",
        f"{usage.who} waits for {gpu} while it executes {_name(facts, first)}",
        lost,
        confidence=0.9,
        links=links,
        fixes=apart(facts, device, usage, first, mps=False),
        hit=waits,
        about=gpu,
    )


def _name(facts: Facts, who: Who) -> str:
    return program_of(who.process or "a process", who.pid, facts.name(who.tenant))
