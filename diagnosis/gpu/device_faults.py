"""Finds faults that a device itself reports: errors, and a link to the host that is slow or loses packets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.gpu.xids import meaning_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import NO_CALLS, SECOND_NS, DeviceCalls, Usage
from stalltop.diagnosis.wording.figures import figure
from stalltop.model.chain import Fix, Link
from stalltop.model.devices.device import Device
from stalltop.model.row_key import RowKey
from stalltop.model.telling import Telling
from stalltop.model.text.words import numbered, program_of

CAUSES: Final = (
    Cause(
        "gpu_lost",
        "GPU lost",
        "the device no longer answers",
        Telling(
            "no longer answers",
            "uses {device}, which no longer answers",
            state="has lost its GPU",
            at_fault="hardware or driver",
        ),
        least="critical",
        at_once=True,
    ),
    Cause(
        "gpu_xid",
        "XID error",
        "the driver reported a critical error of the device",
        Telling("had an XID error", "uses {device}, which had an XID error", state="may fail"),
        least="high",
        at_once=True,
        stays_seconds=60.0,
    ),
    Cause(
        "gpu_ecc",
        "GPU memory errors",
        "the device reported errors of its memory",
        Telling(
            "has memory errors",
            "uses {device}, which has memory errors",
            state="may fail",
            at_fault="GPU memory",
        ),
        least="medium",
        at_once=True,
        stays_seconds=60.0,
    ),
    Cause(
        "pcie_link",
        "PCIe link degraded",
        "the link has fewer lanes or a lower generation than it could",
        Telling(
            "has a PCIe link below its best",
            "uses {device}, whose PCIe link is below its best",
            at_fault="slot, riser or BIOS",
        ),
        least="medium",
    ),
    # One window is enough: a sound link has far fewer than ``REPLAYS`` replays in a window.
    Cause(
        "pcie_replays",
        "PCIe replays",
        "the link sends packets again: a bad contact or signal",
        Telling(
            "sends PCIe packets again",
            "uses {device}, which sends PCIe packets again",
            at_fault="slot, riser or cable",
        ),
        at_once=True,
    ),
)

WORKING_PERCENT: Final = 20.0
"""A device with at least this utilization has work. Without work, devices lower their clocks and link by
themselves."""


def users_of(facts: Facts, device: Device, usages: Iterable[Usage]) -> list[Usage]:
    """Returns those of ``usages`` whose processes have a context on ``device``. If the driver lists no
    processes, and this is the only device, returns all of ``usages``."""
    pids = {process.pid for process in device.processes}
    if not pids and len(facts.window.devices.devices) == 1:
        return list(usages)
    return [usage for usage in usages if usage.pid in pids]


@dataclass(frozen=True, slots=True)
class Loser:
    """The process that loses most time by a fault of a device, and what it loses."""

    usage: Usage | None
    hit: DeviceCalls
    lost_ns: float
    """Time that the process loses in the window, ns."""
    share: float
    also: tuple[RowKey, ...] = ()
    """Rows of other processes that lose time by the same fault."""


def suspect(
    facts: Facts,
    cause: str,
    device: Device,
    summary: str,
    *,
    links: Iterable[Link],
    fixes: Iterable[Fix],
    confidence: float,
    loser: Loser,
    about: str = "",
    unknown: Iterable[str] = (),
) -> Suspicion:
    """Returns a suspicion of ``cause`` against ``device``. ``about`` distinguishes several suspicions of this
    cause against the device."""
    gpu = name_of(device)
    usage, hit = loser.usage, loser.hit
    effect = hit.rows[0] if hit.rows else None
    lost = facts.per_second(loser.lost_ns)
    tenant, pid, process = (usage.tenant, usage.pid, usage.process) if usage else ("", 0, "")
    suffering = frozenset({tenant, *(process.tenant for process in device.processes)} - {""})
    slow = f"{effect.key.operation} of {process}" if effect else f"work on {gpu}"
    if effect and len(suffering) > 1:
        slow = f"{len(suffering)} tenants wait longer for {gpu}, mostly {process} in {effect.key.operation}"
    return Suspicion(
        cause=cause,
        tenant=_only_tenant(device),
        summary=summary,
        lost_ns_per_s=lost,
        confidence=confidence,
        links=(
            Link(
                "effect",
                slow,
                share=1.0,
                ns_per_s=lost if lost else None,
                tenant=tenant,
                pid=pid,
                process=process,
                device=gpu,
                depth=0,
            ),
            *links,
        ),
        fixes=tuple(fixes),
        effect=effect.key if effect else None,
        rows=(*(row.key for row in hit.rows), *loser.also),
        pid=pid,
        process=process,
        about=gpu + about,
        suffering=suffering,
        unknown=tuple(unknown),
        p99_ns=effect.p99_ns if effect else None,
        normal_p99_ns=effect.normal_p99_ns if effect else None,
        calls=hit.calls,
        share=loser.share,
    )


def name_of(device: Device) -> str:
    """Returns a name such as ``GPU 3``."""
    return f"GPU {device.index}"


def _only_tenant(device: Device) -> str:
    """Returns the id of the only tenant on the device; '' if there are several. A chain that named one of
    several could name another one every second, while the fault stays the same."""
    tenants = {process.tenant for process in device.processes}
    return tenants.pop() if len(tenants) == 1 else ""


def slower(users: Sequence[Usage], share: float) -> Loser:
    """Returns the process that loses most if a fault makes everything on the device slower. ``share`` is the
    part of each wait that is lost, 0 to 1."""
    most_first = sorted(users, key=lambda user: -user.synced.waited_ns)
    if not most_first:
        return Loser(None, NO_CALLS, 0.0, share)
    usage, *others = most_first
    waits = usage.synced
    also = tuple(row.key for user in others for row in user.synced.rows)
    return Loser(usage, waits, waits.waited_ns * share, share, also)


def stopped(users: Sequence[Usage]) -> Loser:
    """Returns the process with most time in calls as the one that loses most, with a lost time of 0. It is
    used for errors whose cost cannot be measured as time."""
    usage = max(users, key=lambda user: user.all.total_ns, default=None)
    return Loser(usage, NO_CALLS, 0.0, 0.0)


def gpu_lost(facts: Facts, device: Device, users: Sequence[Usage]) -> Iterator[Suspicion]:
    """Yields a suspicion if ``device`` no longer answers."""
    if not device.lost:
        return
    gpu = name_of(device)
    usage = stopped(users).usage
    yield suspect(
        facts,
        "gpu_lost",
        device,
        f"{gpu} ({device.name}) no longer answers",
        links=(
            Link("mechanism", "the driver cannot reach the device any more", device=gpu),
            Link("culprit", f"{gpu}, {device.uuid or device.name}", device=gpu, depth=2),
        ),
        fixes=(
            Fix(
                "see what the driver wrote when it happened",
                "dmesg -T | grep -i -E 'NVRM|Xid' | tail",
                look=True,
            ),
            Fix(
                f"end the processes on {gpu}, then reset it; if that fails, restart the host, and have "
                "power, cooling and seating of the card checked",
                f"nvidia-smi -i {device.index} --gpu-reset",
            ),
        ),
        confidence=0.95,
        loser=Loser(usage, NO_CALLS, float(SECOND_NS) * facts.seconds, 1.0) if usage else stopped(()),
    )


def gpu_xid(facts: Facts, device: Device, users: Sequence[Usage]) -> Iterator[Suspicion]:
    """Yields a suspicion for each XID that the driver reported."""
    gpu = name_of(device)
    for code in sorted(set(device.xids)):
        xid = meaning_of(code)
        loser = stopped(users)
        program = xid.program and len(users) == 1
        culprit = Link(
            "culprit",
            f"{program_of(users[0].process, users[0].pid, '')}, the only process on {gpu}"
            if program
            else gpu,
            tenant=users[0].tenant if program else "",
            pid=users[0].pid if program else 0,
            process=users[0].process if program else "",
            device=gpu,
            depth=2,
        )
        yield suspect(
            facts,
            "gpu_xid",
            device,
            f"{gpu}: XID {code}, {xid.text}",
            links=(Link("mechanism", f"XID {code}: {xid.text}", device=gpu), culprit),
            fixes=(
                Fix(xid.fix.format(gpu=gpu), short=xid.short.format(gpu=gpu)),
                Fix("see what the driver wrote", "dmesg -T | grep -i -E 'NVRM|Xid' | tail", look=True),
            ),
            confidence=0.95,
            loser=loser,
            about=f"/{code}",
            unknown=()
            if not xid.program or program
            else ("which process it was: the Linux kernel's log says it",),
        )


CORRECTED: Final = 10
"""Least number of corrected errors in a window that is reported: healthy memory has one now and then."""


def gpu_ecc(facts: Facts, device: Device, users: Sequence[Usage]) -> Iterator[Suspicion]:
    """Yields a suspicion if the memory of ``device`` has errors."""
    gpu = name_of(device)
    bad, corrected = device.ecc_uncorrected or 0, device.ecc_corrected or 0
    said = []
    if bad:
        said.append(f"errors that could not be corrected: {bad:,}")
    if corrected >= CORRECTED:
        said.append(f"corrected errors: {corrected:,}")
    if device.remap_pending:
        said.append("rows of memory will be replaced at the next reset")
    if device.retirement_pending:
        said.append("pages of memory will be taken out of use at the next reset")
    if device.remap_failed:
        said.append("a row of memory could not be replaced: there are no spare ones left for it")
    if not said:
        return
    fixes = [
        Fix(
            "see the counters and the rows replaced so far",
            f"nvidia-smi -i {device.index} -q -d ECC,ROW_REMAPPER",
            look=True,
        )
    ]
    if bad or device.remap_pending or device.retirement_pending:
        fixes.append(
            Fix(
                f"end the processes on {gpu} and reset it, so that bad rows are replaced; results since "
                "the first error may be wrong"
                if bad
                else f"reset {gpu} when its processes can be ended: bad rows are replaced then",
                f"nvidia-smi -i {device.index} --gpu-reset",
            )
        )
    fixes.append(
        Fix("have the card replaced: its memory has no spare rows left where they are needed")
        if device.remap_failed
        else Fix("if errors come again after a reset: have the card tested (dcgmi diag -r 3) and replaced")
    )
    yield suspect(
        facts,
        "gpu_ecc",
        device,
        f"{gpu} ({device.name}) has memory errors",
        links=(
            Link("mechanism", "; ".join(said), device=gpu),
            Link("culprit", f"memory of {gpu}, {device.uuid or device.name}", device=gpu, depth=2),
        ),
        fixes=fixes,
        confidence=0.95,
        loser=stopped(users),
    )


LANE_GB_PER_S: Final = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""Data rate of one lane by PCIe generation, without the bits that the encoding adds, GB/s."""


def pcie_link(facts: Facts, device: Device, users: Sequence[Usage]) -> Iterator[Suspicion]:
    """Yields a suspicion if ``device`` has work and its link is slower than card and slot allow."""
    now, best = (
        (device.pcie_generation, device.pcie_width),
        (device.pcie_generation_max, device.pcie_width_max),
    )
    if None in now or None in best or not _works(device):
        return
    carries, could = link_rate(*now), link_rate(*best)
    if not 0 < carries < could:
        return
    gpu = name_of(device)
    usage = max(
        users, key=lambda user: user.copies("HtoD", "DtoH", asynchronous=False).total_ns, default=None
    )
    copies = usage.copies("HtoD", "DtoH") if usage else NO_CALLS
    waited = usage.copies("HtoD", "DtoH", asynchronous=False).total_ns if usage else 0
    missing = 1 - carries / could
    yield suspect(
        facts,
        "pcie_link",
        device,
        f"{gpu} is linked by PCIe {now[0]}.0 x{now[1]} instead of {best[0]}.0 x{best[1]}",
        links=(
            Link(
                "mechanism",
                f"the link carries {figure(carries)} GB/s instead of {figure(could)}",
                share=1.0,
                device=gpu,
            ),
            Link("culprit", f"the slot or riser of {gpu}, {device.uuid or device.name}", device=gpu, depth=2),
        ),
        fixes=(
            Fix(
                "see what both ends of the link can do",
                f"nvidia-smi -i {device.index} "
                "--query-gpu=pci.bus_id,pcie.link.gen.current,pcie.link.gen.max,"
                "pcie.link.width.current,pcie.link.width.max --format=csv; "
                "lspci -vv | grep -E 'NVIDIA|LnkSta'",
                look=True,
            ),
            Fix("seat the card and its riser anew; look at slot, BIOS link settings and bifurcation"),
        ),
        confidence=0.9,
        loser=Loser(
            usage, copies, waited * missing, min(waited * missing / usage.wall_ns, 1.0) if usage else 0.0
        ),
        unknown=(
            ("what the slower link costs asynchronous copies: their time on the device is not counted",)
        ),
    )


def link_rate(generation: int | None, width: int | None) -> float:
    """Returns the rate of a PCIe link in one direction, GB/s; 0 if it is not known."""
    return LANE_GB_PER_S.get(generation or 0, 0.0) * (width or 0)


REPLAYS: Final = 20
"""Least number of replays in one window that is reported: a sound link replays a packet a few times a day."""


def pcie_replays(facts: Facts, device: Device, users: Sequence[Usage]) -> Iterator[Suspicion]:
    """Yields a suspicion if the link of ``device`` replays packets."""
    replays = device.pcie_replays or 0
    if replays < REPLAYS:
        return
    gpu = name_of(device)
    yield suspect(
        facts,
        "pcie_replays",
        device,
        f"the PCIe link of {gpu} ({device.name}) sends packets again",
        links=(
            Link("mechanism", f"{numbered(replays, 'replay')} since the previous sample", device=gpu),
            Link("culprit", f"the link of {gpu}, {device.uuid or device.name}", device=gpu, depth=2),
        ),
        fixes=(
            Fix(
                "watch whether the counter keeps rising",
                f"nvidia-smi -i {device.index} -q | grep -i replay",
                look=True,
            ),
            Fix(
                "seat the card and its riser or cable anew; a lower link generation in the BIOS helps "
                "meanwhile"
            ),
        ),
        confidence=0.9,
        loser=stopped(users),
        unknown=("the time that replays take: it is not counted",),
    )


def _works(device: Device) -> bool:
    return device.utilization_percent is not None and device.utilization_percent >= WORKING_PERCENT


DEVICE_RULES: Final = (gpu_lost, gpu_xid, gpu_ecc, pcie_link, pcie_replays)
"""Rules that run for every device; they also get the processes that use the device."""
