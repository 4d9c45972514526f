"""Finds tenants that wait for a time-sliced GPU while others have it, where the driver's log of context
switches says which process had the GPU for how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from stalltop.diagnosis.blame import in_order, remembered, rest
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.gpu.sharing import MOST_NEIGHBOURS, apart
from stalltop.diagnosis.links import Who, link_of, who_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import DeviceCalls, Usage, added
from stalltop.diagnosis.wording.figures import duration, figure
from stalltop.model.chain import OTHERS, Link
from stalltop.model.devices.device import Device
from stalltop.model.families import Family
from stalltop.model.sharing.placing import placement
from stalltop.model.sharing.sharing import sharing_of
from stalltop.model.text.words import program_of

COPY_BYTES_PER_SECOND: Final = 4e9
"""Assumed rate of copies. Waits for copies are no waits for a time slice, because copy engines work while
another process has the GPU. Real copies are faster, so that too little is charged to others, not too much."""


def gpu_time_slices(facts: Facts, device: Device, users: Sequence[Usage]) -> Iterator[Suspicion]:
    """Yields tenants that waited for ``device`` while others had it.

    A process loses the time in which it waited for the device longer than it had the device, but at most the
    time in which others had it. If several of its threads wait at once, that counts once.
    """
    sharing = sharing_of(facts.window, device)
    if sharing.switches_per_second is None or not device.context_log_ns:
        return
    # The log may have been read for a part of a merged window only.
    whole = facts.seconds * 1e9 / device.context_log_ns
    resident_ns = {one.pid: (one.resident_ns or 0) * whole for one in device.processes}
    active_ns = {one.tenant: one.active_ns for one in sharing.sharers}
    places = placement(facts.window)
    for usage in users:
        calls = [*usage.of(Family.SYNC).rows, *usage.copies("DtoH").rows]
        here = [row for row in calls if places.devices(row.key) == (device.label,)]
        waits = added(facts, here)
        copied_ns = usage.copies().bytes / COPY_BYTES_PER_SECOND * 1e9
        waited_ns = min(waits.waited_ns - copied_ns, active_ns.get(usage.tenant) or facts.seconds * 1e9)
        others = {who_of(one): resident_ns[one.pid] for one in device.processes if one.pid != usage.pid}
        taken = {
            who: ns for who, ns in others.items() if ns and (not who.tenant or who.tenant != usage.tenant)
        }
        elsewhere_ns = min(waited_ns - resident_ns.get(usage.pid, 0), sum(others.values()))
        if not taken or elsewhere_ns <= 0:
            continue
        lost_ns = elsewhere_ns * sum(taken.values()) / sum(others.values())
        if not usage.noticeable(lost_ns):
            continue
        blame = facts.blame("gpu_neighbours", usage.tenant, f"GPU {device.label}")
        sums = remembered(blame.taken.get(usage.pid, {}), taken, facts.pids)
        order = in_order(taken, sums, blame.first)
        had = {who: taken[who] / (facts.seconds * 1e9) for who in order}
        own_ns = resident_ns.get(usage.pid, 0)
        found = _waits(facts, device, usage, waits, lost_ns, own_ns, had, sharing.switches_per_second)
        yield replace(found, taken={usage.pid: sums})


def _waits(
    facts: Facts,
    device: Device,
    usage: Usage,
    waits: DeviceCalls,
    lost_ns: float,
    own_ns: float,
    had: Mapping[Who, float],
    switches: float,
) -> Suspicion:
    """Returns the suspicion that ``usage``, which had the device for ``own_ns``, loses ``lost_ns`` to the
    processes ``had``, each with its share of the time, the largest first."""
    gpu = f"GPU {device.label}"
    everyone = list(had)
    first, named = everyone[0], everyone[:MOST_NEIGHBOURS]
    waited, own = (duration(facts.per_second(ns)) for ns in (waits.waited_ns, own_ns))
    links = [
        link_of(
            usage,
            "mechanism",
            f"of each second, {usage.process} waits {waited} for {gpu} and has it for {own}; {gpu} is "
            f"time-sliced, with {figure(switches)} context switches a second",
            share=1.0,
            ns_per_s=facts.per_second(lost_ns),
            device=gpu,
        ),
        *(
            link_of(
                who,
                "culprit",
                f"{_name(facts, who)} has {gpu} for {min(had[who], 1):.0%} of the time",
                share=had[who] / sum(had.values()),
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
        f"{usage.who} waits for {gpu} while {_name(facts, first)} has it",
        lost_ns,
        confidence=0.8,
        links=links,
        fixes=apart(facts, device, usage, first, mps=False),
        hit=waits,
        about=gpu,
    )


def _name(facts: Facts, who: Who) -> str:
    return program_of(who.process or "a process", who.pid, facts.name(who.tenant))
