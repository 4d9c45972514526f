"""Describes waits for block devices: for which device a process waits, how slow the device is, and who loads
it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stalltop.diagnosis.attribution.losses import Loss
from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.evidence import block, memory
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.links import Who, link_of
from stalltop.diagnosis.wording import commands
from stalltop.diagnosis.wording.culprits import named, ranked, untold
from stalltop.diagnosis.wording.figures import figure
from stalltop.model.chain import OTHERS, Fix, Link
from stalltop.model.telling import Telling

SLOW_REQUEST_NS: Final = 4_000_000
"""A device counts as slow if a request takes at least this long on average, ns. A solid-state disk without
much load takes less than one millisecond."""
OFTEN: Final = 0.2
"""If reads and writes take at least this part of a caller's time, they are reported even if the device is
fast."""
HELD_BACK: Final = 0.7
"""If requests spend more than this part of their time waiting before the device gets them, an I/O limit or
the queue of the I/O scheduler holds them back."""
SURE: Final = 0.9
UNSURE: Final = SURE / 2
"""Confidence if the process itself made no request to a block device."""
_NO_BLOCK_IO: Final = (
    "no block I/O of its own was seen (a network file system, such as NFS, or FUSE has none)"
)
_LIMIT_FILES: Final = "io.max; with cgroup v1 blkio.throttle"


@dataclass(frozen=True, slots=True)
class Load:
    """The device for which a process waits, and what a chain says about it."""

    device: str
    """Name of the device; '' if no I/O of the process or its tenant was seen."""
    links: tuple[Link, ...]
    fixes: tuple[Fix, ...]
    unknown: tuple[str, ...] = ()
    request_ns: float = 0.0
    """Mean time of one request of the process at the device, from submission to completion, ns. If the
    process made no requests, it is that of its tenant's requests."""
    sure: float = SURE
    """Confidence that the process waits for this device."""
    held_back: bool = False
    """Whether the process's requests are held back before the device gets them, although no other tenant
    loads the device. An I/O limit of the cgroup or the queue of the I/O scheduler holds them back."""


def load(facts: Facts, loss: Loss) -> Load:
    """Returns the device for which the process at the root of ``loss`` waits. The links say how slow the
    device is and who loads it. The fixes concern those who load it or, if the waiting tenant's own I/O limit
    holds its requests back, that tenant."""
    who, depth = loss.last, len(loss.path) + 2
    device = block.device_of(facts, who.tenant, who.pid)
    if device is None:
        return Load("", (), (), (f"which device it waits for: {_NO_BLOCK_IO}",), sure=UNSURE)
    unknown: tuple[str, ...] = ()
    whose = "" if device.own else " of the tenant"
    if not device.own:
        unknown = (f"whether {who.process} waits for {device.name}, as its tenant does: {_NO_BLOCK_IO}",)
    lost = loss.paths[loss.path]
    reason = link_of(
        who,
        "reason",
        f"{device.name}: {_two_digits(device.request_ns / 1e6)} ms per request{whose}",
        share=min(lost / loss.ns, 1.0) if device.own and loss.ns else None,
        ns_per_s=facts.per_second(lost) if device.own else None,
        device=device.name,
        depth=depth,
    )
    others = bool(block.others(facts, device.name, who.tenant))
    to_blame = {user: ns for user, ns in loss.culprits.items() if (user.tenant != who.tenant) == others}
    culprits = _culprits(facts, loss, reason, to_blame)
    links = [reason, *culprits]
    held_back = not others and device.queued_ns > HELD_BACK * (device.queued_ns + device.service_ns)
    if others:
        fixes = _slower(facts, culprits[0])
        if memory.thrashes(facts, who.tenant, who.pid):
            text = f"{facts.name(who.tenant)} is at its memory limit: it reads dropped pages again"
            links.append(Link("factor", text, tenant=who.tenant, depth=1))
    elif held_back:
        limit = "its requests wait before the device gets them: a limit of its cgroup on I/O may hold them"
        links.insert(1, Link("factor", limit, device=device.name, tenant=who.tenant, depth=1))
        name = facts.name(who.tenant)
        text = f"raise or lift the I/O limit of {name} on {device.name} ({_LIMIT_FILES})"
        fixes = [Fix(text, short=f"raise or lift its I/O limit on {device.name} (io.max)")]
    else:
        name = facts.name(who.tenant)
        text = f"nobody else uses {device.name} much: move some of what {name} reads and writes"
        short = f"move its data from {device.name} to a faster disk"
        fixes = [Fix(f"{text} to another device, or to a faster one", short=short)]
    return Load(
        device.name,
        tuple(links),
        tuple(fixes),
        unknown,
        request_ns=device.request_ns,
        sure=SURE if device.own else UNSURE,
        held_back=held_back,
    )


def slow(facts: Facts, loss: Loss) -> Description | None:
    """Describes calling threads that wait for a disk themselves. Returns None if the disk is fast and the
    waits take little of their time."""
    found = load(facts, loss)
    is_slow = found.request_ns >= SLOW_REQUEST_NS or found.held_back
    if not is_slow and loss.ns < OFTEN * facts.wall_ns(loss.victim.pid):
        return None
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for disk {found.device}".rstrip(),
        links=found.links,
        fixes=(
            *found.fixes,
            Fix("read and write in threads that do not call the GPU, ahead of time"),
        ),
        confidence=found.sure,
        unknown=found.unknown,
    )


def users(facts: Facts, loss: Loss) -> Mapping[Who, float]:
    """Returns for how many ns the device of ``loss`` worked for each of its users. This is the device for
    which the process at the root of ``loss`` waits; if it is not known, the result is empty."""
    device = block.device_of(facts, loss.last.tenant, loss.last.pid)
    if device is None:
        return {}
    return {Who(*user): ns for user, ns in block.users(facts, device.name).items()}


def in_fsync(facts: Facts, loss: Loss) -> Description:
    """Describes threads that wait in fsync until the data that they wrote is on the disk."""
    found = load(facts, loss)
    where = f" for disk {found.device}" if found.device else ""
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits in fsync{where}",
        links=found.links,
        fixes=(
            *found.fixes,
            Fix(
                "write checkpoints beside the loop (torch.distributed.checkpoint.async_save, or a thread "
                "with a copy of the data), and call fsync once for each"
            ),
        ),
        confidence=found.sure,
        unknown=found.unknown,
    )


def _culprits(facts: Facts, loss: Loss, reason: Link, to_blame: Mapping[Who, float]) -> list[Link]:
    """Returns links that name the culprits ``to_blame``, which use the device of the link ``reason``. The
    loss is divided among them in proportion to their load. The culprits that are not named share one link."""
    total = sum(loss.culprits.values())
    culprits = ranked(to_blame, total, loss.first)
    told = [
        (user, f"{named(facts, user)} keeps {_at_once(facts.per_second(ns) / 1e9)} on {reason.device}", ns)
        for user, ns in culprits
    ]
    rest, rest_ns = untold(loss.culprits, culprits, total)
    if culprits and rest:
        told.append((Who("", 0, OTHERS), rest, rest_ns))
    return [
        link_of(
            user,
            "culprit",
            text,
            share=None if reason.share is None else reason.share * ns / total,
            ns_per_s=None if reason.ns_per_s is None else reason.ns_per_s * ns / total,
            device=reason.device,
            depth=reason.depth + 1,
        )
        for user, text, ns in told
    ]


def _at_once(requests: float) -> str:
    """Returns a text for the load of a device, from the mean number of ``requests`` that it has at a time."""
    said = _two_digits(requests)
    return f"{said} {'request' if said == '1' else 'requests'} in flight"


def _two_digits(number: float) -> str:
    """Returns a number with two significant digits or all digits before the point, such as ``1.4`` and
    ``142``."""
    return f"{number:.0f}" if number >= 9.95 else f"{number:.2g}"


def _slower(facts: Facts, culprit: Link) -> list[Fix]:
    """Returns fixes that reduce the load from the culprit that loads the device most."""
    name, device = facts.name(culprit.tenant), culprit.device
    rate_now, write = block.bytes_per_second(facts, device, culprit.tenant)
    verb, resource = ("writes to", "writes") if write else ("reads from", "reads")
    rate = facts.held_use(culprit.tenant, f"{device} {resource}", rate_now)
    command = commands.limit_disk(facts, culprit.tenant, device, rate / 2, write=write) if rate else ""
    now = f"{figure(rate / 1e6)} MB/s"
    part = "about half" if rate else "a part"
    text = f"limit what {name} {verb} {device} to {part} of its {now} ({_LIMIT_FILES})"
    limit = Fix(text, command, short=f"{part} of what it {resource}")
    if not culprit.pid:
        return [limit]
    text = f"let {culprit.process} of {name} use {device} only when nobody else does"
    return [
        limit,
        Fix(
            f"{text} (only if {device} has the I/O scheduler BFQ)",
            commands.idle_io(culprit.pid),
            short=f"only if {device} has the I/O scheduler BFQ",
        ),
    ]


CAUSES: Final = (
    HostCause(
        Cause(
            "slow_disk",
            "Slow block device",
            "threads wait for a device that is slow, or loaded by others",
            Telling("keeps {device} busy", "waits for {device}", device="the disk", parts=("disk",)),
        ),
        slow,
        culprits=users,
    ),
    HostCause(
        Cause(
            "fsync",
            "Waits for fsync",
            "threads wait in fsync, of a checkpoint or a log, until a device has what they wrote",
            Telling(
                "keeps {device} busy during its fsync",
                "waits in fsync for {device}",
                device="the disk",
                parts=("disk",),
            ),
        ),
        in_fsync,
        culprits=users,
    ),
)
