"""Block devices: which one a process waits for, how slow it is, and who loads it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from diagnosis.facts import Facts
from diagnosis.host import commands
from diagnosis.host.attribution import Loss, Who
from diagnosis.host.description import Description
from diagnosis.host.wording import MOST_CULPRITS, named
from model.chain import Fix, Link
from model.evidence import BlockIo

SLOW_REQUEST_NS: Final = 4_000_000
"""Mean time of a request from which a device counts as slow: a solid-state disk with room takes less than one
millisecond."""
OFTEN: Final = 0.2
"""Part of a caller's time in reads and writes that is too much on a fast device as well."""
OTHERS_LOAD: Final = 0.3
"""Part of a device's time that others take before they are to blame for its waits."""
OTHERS_BUSY: Final = 0.3
"""How much of the time they keep it busy, at least: a device with little to do makes nobody wait."""
HELD_BACK: Final = 0.7
"""Part of its requests' time that they wait before the device gets them: a limit holds them, or the queue."""
SURE: Final = 0.9


@dataclass(frozen=True, slots=True)
class Load:
    """A device that a process waits for."""

    device: str
    """Empty where its I/O was not seen."""
    links: tuple[Link, ...]
    fixes: tuple[Fix, ...]
    unknown: tuple[str, ...] = ()
    request_ns: float = 0.0
    """Mean time of its requests there."""


def load(facts: Facts, loss: Loss) -> Load:
    """The device that the process at the root of ``loss`` waits for, and who loads it."""
    who, depth = loss.last, len(loss.path) + 2
    own = _by_device(facts.io_of(who.pid)) or _by_device(
        io for io in facts.window.evidence.block_io if io.tenant == who.tenant
    )
    if not own:
        return Load("", (), (), ("which device it waits for: its block I/O was not seen",))
    device = max(own, key=lambda name: sum(io.queued_ns + io.service_ns for io in own[name]))
    requests = sum(io.requests for io in own[device]) or 1
    queued = sum(io.queued_ns for io in own[device])
    service = sum(io.service_ns for io in own[device])
    reason = Link(
        "reason",
        f"{device} takes {(queued + service) / requests / 1e6:.1f} ms for each of its requests",
        share=1.0,
        ns_per_s=facts.per_second(queued + service),
        tenant=who.tenant,
        pid=who.pid,
        process=who.process,
        device=device,
        depth=depth,
    )
    users = _users(facts, device)
    total = sum(users.values()) or 1.0
    others = {user: ns for user, ns in users.items() if user.tenant != who.tenant}
    if sum(others.values()) < max(OTHERS_LOAD * total, OTHERS_BUSY * facts.seconds * 1e9):
        others = {}
    culprits = _culprits(facts, device, others or _of_tenant(users, who.tenant), total, depth + 1)
    fixes = [_slower(facts, culprits[0])] if others else []
    if not others:
        fixes.append(Fix(f"spread the load of {device}: nobody else uses it much"))
        if queued > HELD_BACK * (queued + service):
            limit = (
                "its requests wait before the device gets them: a limit of its cgroup (io.max) may hold them"
            )
            culprits = [Link("factor", limit, device=device, tenant=who.tenant, depth=1), *culprits]
            fixes = [Fix(f"raise or lift the I/O limit of {facts.name(who.tenant)} (io.max, blkio.throttle)")]
    return Load(device, (reason, *culprits), tuple(fixes), request_ns=(queued + service) / requests)


def slow(facts: Facts, loss: Loss) -> Description | None:
    """Threads that call wait for a device themselves."""
    found = load(facts, loss)
    if found.request_ns < SLOW_REQUEST_NS and loss.ns < OFTEN * facts.wall_ns(loss.victim.pid):
        return None
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for disk {found.device}".rstrip(),
        links=found.links,
        fixes=(
            *found.fixes,
            Fix("read and write in threads that do not call the GPU, ahead of time"),
        ),
        confidence=SURE if found.device else SURE / 2,
        unknown=found.unknown,
    )


def _by_device(records: Iterable[BlockIo]) -> dict[str, list[BlockIo]]:
    found: dict[str, list[BlockIo]] = {}
    for io in records:
        found.setdefault(io.device, []).append(io)
    return found


def _users(facts: Facts, device: str) -> dict[Who, float]:
    """Who keeps a device busy: time of its requests within the device, ns of the window."""
    users: dict[Who, float] = {}
    for io in facts.window.evidence.block_io:
        if io.device == device:
            user = Who(io.tenant, io.pid, io.process)
            users[user] = users.get(user, 0.0) + io.service_ns
    return users


def _of_tenant(users: dict[Who, float], tenant: str) -> dict[Who, float]:
    return {user: ns for user, ns in users.items() if user.tenant == tenant}


def _culprits(facts: Facts, device: str, users: dict[Who, float], total: float, depth: int) -> list[Link]:
    tenants: dict[str, float] = {}
    for user, ns in users.items():
        tenants[user.tenant] = tenants.get(user.tenant, 0.0) + ns
    order = sorted(users.items(), key=lambda item: (-tenants[item[0].tenant], -item[1], item[0]))
    return [
        Link(
            "culprit",
            f"{named(facts, user)} loads {device}"
            if user.pid
            else f"{facts.name(user.tenant)} loads {device} (writeback)",
            share=ns / total,
            ns_per_s=facts.per_second(ns),
            tenant=user.tenant,
            pid=user.pid,
            process=user.process,
            device=device,
            depth=depth,
        )
        for user, ns in order[:MOST_CULPRITS]
    ]


def _slower(facts: Facts, culprit: Link) -> Fix:
    """Let the one who loads the device most use it less."""
    name = facts.name(culprit.tenant)
    if not culprit.pid:
        return Fix(f"limit what {name} writes to {culprit.device} (io.max)")
    text = f"let {culprit.process} of {name} use {culprit.device} only when nobody else does"
    return Fix(text, commands.idle_io(culprit.pid))
