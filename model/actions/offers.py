"""Lists the commands for a row of a table or for a problem: pure functions of a window."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from stalltop.model.actions.catalogue import ACTIONS, HostCommand, Resource, pauses
from stalltop.model.actions.cpu_places import CpuTarget, apart, idlest_half, reserved
from stalltop.model.actions.placeholders import (
    Values,
    limit_values,
    process_values,
    tenant_values,
    use_of_tenant,
)
from stalltop.model.chain import Chain, Fix
from stalltop.model.cpu_list import cpus_of, list_of
from stalltop.model.window import Window

MOST_TENANTS: Final = 3
MOST_PROCESSES: Final = 3
"""Commands are listed for at most this many tenants and processes; a row may have hundreds of them."""
LEAST_USED_CPUS: Final = 0.2
"""A CPU limit is offered only for tenants that use at least this many CPUs. The limit is half of what the
tenant uses."""
FIXES: Final = "What helps with this problem"
LOOKS: Final = "What shows more"
STOPS: Final = "Last resort: stops or ends "
"""Begins the heading of the commands that stop or end a process or tenant."""
_PAUSES: Final = "; stops the process for a moment"
_POWER_CAP: Final = re.compile(r"nvidia-smi -i (\d+) -pl \d+")
_HAND: Final = "by hand: see what the command changed"

CAUSES: Final[dict[Resource, tuple[str, ...]]] = {
    "cpu": (
        "cpu_contention",
        "cpu_pinning",
        "interrupts",
        "unexplained_wait",
    ),
    "disk": ("loader_disk", "slow_disk", "fsync", "major_faults"),
    "memory": ("reclaim", "oom_kill"),
    "gpu": ("gpu_neighbours", "gpu_memory_full", "gpu_not_given"),
}
"""For each resource: ids of the causes in which culprits take it from the victim. In other causes a limit for
the culprit, such as a rank that is late, would make the problem worse."""
RESTARTED: Final = frozenset(("hung_call", "nccl_hang", "memory_leak", "gpu_lost", "gpu_xid"))
"""Ids of the causes in which it helps to end or restart the victim."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One command, ready to be typed on the host."""

    about: str
    """Heading of the command: the process or tenant that it changes, after ``STOPS`` if it stops or ends
    that; ``FIXES`` for the fixes of a problem, ``LOOKS`` for commands that only show more. Offers with the
    same heading follow each other."""
    command: str
    """The command; '' if there is none, but something to do by hand, which ``does`` says."""
    does: str
    undo: str
    """The command that undoes it; '' if there is none, or if it is not known."""
    note: str = ""
    """A note about the undo: that it restores a usual default; or, without an undo, what to do instead."""
    look: bool = False
    """True if the command only shows more."""
    for_owner: bool = False
    """True if there is no command, and only the owner of the program can do it."""
    owner: str = ""
    """Who the owner is; '' if unknown."""

    @property
    def whose(self) -> str:
        """Returns who can do it, if there is no command: ``for its owner, anna``."""
        if not self.for_owner:
            return "by hand"
        return f"for its owner, {self.owner}" if self.owner else "for its owner"


def for_row(window: Window, tenants: Sequence[str], processes: Sequence[tuple[str, int, str]]) -> list[Offer]:
    """Returns the commands for a row of a table, for its ``tenants`` (ids) and its ``processes`` (tenant,
    pid, name). Both begin with the most important one. If the row is one process, its commands come first.
    Commands that only show more come before all others, commands that stop or end something come last."""
    single: list[Offer] = []
    whole: list[Offer] = []
    for tenant, pid, name in processes[:MOST_PROCESSES]:
        single += _process(window, tenant, pid, name, idlest_half(window, CpuTarget(tenant, pid)))
    for tenant in tenants[:MOST_TENANTS]:
        whole += _tenant(window, tenant, idlest_half(window, CpuTarget(tenant, 0)))
    return _gentle_first([*single, *whole] if len(processes) == 1 else [*whole, *single])


def for_chain(window: Window, chain: Chain) -> list[Offer]:
    """Returns the commands for a problem: its own fixes, also those without a command, and the commands that
    only show more; then further commands for culprits that take a resource from the victim, and commands that
    end, restart or move the victim where that helps."""
    found = [
        Offer(FIXES, fix.command, fix.text, *undo_of(window, chain, fix))
        if fix.command
        else Offer(FIXES, "", fix.text, "", for_owner=chain.is_for_owner(fix), owner=_owner(window, chain))
        for fix in chain.fixes
        if not fix.look
    ]
    found += [
        Offer(LOOKS, fix.command, fix.text + (_PAUSES if pauses(fix.command) else ""), "", look=True)
        for fix in chain.fixes
        if fix.look
    ]
    wanted: set[Resource] = {resource for resource, causes in CAUSES.items() if chain.cause in causes}
    culprits = [link for link in chain.culprits if wanted and link.tenant not in ("", chain.tenant)][
        :MOST_PROCESSES
    ]
    places = _places(window, chain, [CpuTarget(link.tenant, link.pid) for link in culprits])
    rest: list[Offer] = []
    for link, cpus in zip(culprits, places, strict=True):
        if link.pid:
            rest += _process(window, link.tenant, link.pid, link.process, cpus, wanted)
        rest += _tenant(window, link.tenant, cpus, wanted)
    if chain.tenant and chain.pid and chain.cause in RESTARTED:
        rest += _process(window, chain.tenant, chain.pid, chain.process, frozenset(), victim=True)
    if chain.tenant and (wanted or chain.cause in RESTARTED):
        rest += _tenant(window, chain.tenant, frozenset(), victim=True)
    # A fix that is offered already, or that does the same with other figures, is not offered again.
    known = {_verb(offer.command) for offer in found if offer.command}
    for offer in rest:
        if _verb(offer.command) not in known:
            known.add(_verb(offer.command))
            found.append(offer)
    return [*found[: len(chain.fixes)], *_gentle_first(found[len(chain.fixes) :])]


def _owner(window: Window, chain: Chain) -> str:
    """Returns who owns the programs of the first culprit of ``chain``; '' if unknown."""
    culprit = next(iter(chain.culprits), None)
    tenant = window.tenants.get(culprit.tenant) if culprit is not None else None
    return tenant.owner if tenant is not None else ""


def _gentle_first(found: Iterable[Offer]) -> list[Offer]:
    """Returns ``found`` with the commands that only show more first, and those that stop or end something
    last, under headings of their own."""
    return sorted(found, key=lambda offer: (not offer.look, offer.about.startswith(STOPS)))


def undo_of(window: Window, chain: Chain, fix: Fix) -> tuple[str, str]:
    """Returns the command that undoes a fix, and a note about the undo. The fix is recognised by its command.
    Returns ('', note) if the command is not in the catalogue."""
    if cap := _POWER_CAP.fullmatch(fix.command):
        limits = {
            str(device.index): device.power_limit_default_watts or device.power_limit_watts
            for device in window.devices.devices
        }
        limit = limits.get(cap[1])
        return (f"nvidia-smi -i {cap[1]} -pl {limit:.0f}", "") if limit else ("", _HAND)
    named = [(link.tenant, link.pid) for link in chain.links]
    # The command of a fix for many processes of one name is for one of them, whose PID no link has.
    numbers = [int(number) for number in re.findall(r"\d+", fix.command.rpartition(" ")[2])]
    listed = [(use.tenant, use.pid) for use in window.evidence.processes if use.pid in numbers]
    for tenant, pid in dict.fromkeys([(chain.tenant, chain.pid), *named, *listed]):
        targets = {"process": process_values(window, tenant, pid), "tenant": tenant_values(window, tenant)}
        for action in ACTIONS:
            if _is(action, fix.command, targets[action.of]):
                return _undo(action, targets[action.of])
    return "", _HAND


def _is(action: HostCommand, command: str, values: Values) -> bool:
    """Returns whether ``command`` is that of ``action`` with ``values``, whatever figures it proposes."""
    proposed = dict.fromkeys(action.placeholders - set(values.known), "\x00")
    if not set(proposed) <= _PROPOSED:
        return False
    parts = action.command.format_map({**values.known, **proposed}).split("\0")
    return re.fullmatch(".+".join(map(re.escape, parts)), command) is not None


_PROPOSED: Final = frozenset(
    (
        *("cpus", "memory_mib", "swap_mib", "device_path", "stopped"),
        *(f"{what}_rate_{base}" for what in ("read", "write") for base in (1000, 1024)),
        *limit_values(1.0),
    )
)
"""Placeholders for figures that a command proposes, and for values that only the diagnosis knows."""


def _places(window: Window, chain: Chain, culprits: Sequence[CpuTarget]) -> tuple[frozenset[int], ...]:
    """Returns CPUs for each of the culprits: those of the problem's fixes, or else CPUs that neither the
    victim nor another culprit gets."""
    placed = _placed(chain.fixes)
    kept = reserved(window, chain.pid)
    free = [culprit for culprit in culprits if culprit.pid not in placed]
    others = frozenset(cpu for cpus in placed.values() for cpu in cpus)
    given = dict(zip(free, apart(window, kept | others, free), strict=True))
    return tuple(placed.get(culprit.pid) or given.get(culprit, frozenset()) for culprit in culprits)


def _placed(fixes: Iterable[Fix]) -> dict[int, frozenset[int]]:
    """Returns the CPUs to which the commands of ``fixes`` move processes, by PID."""
    found = {}
    for fix in fixes:
        words = fix.command.split()
        if words[:2] == ["taskset", "-acp"] and len(words) == 4 and words[3].isdecimal():
            found[int(words[3])] = cpus_of(words[2])
    return found


def _verb(command: str) -> tuple[str, ...]:
    """Returns what two commands have in common if they differ only in the figures that they propose: the
    words that begin with no digit, without what follows ``=``, and the last word, which may be a PID. Of an
    ``echo``, only the file that it writes counts."""
    words = command.split()
    if words[:1] == ["echo"]:
        return "echo", words[-1]
    kept = [word for word in words[:-1] if not word[0].isdigit()] + words[-1:]
    return tuple(word.partition("=")[0] for word in kept)


def _process(
    window: Window,
    tenant: str,
    pid: int,
    name: str,
    cpus: frozenset[int],
    wanted: Collection[Resource] | None = None,
    *,
    victim: bool = False,
) -> list[Offer]:
    owner = window.tenants.get(tenant)
    of = f" of {owner.name}" if owner is not None and owner.name not in ("", name) else ""
    values = process_values(window, tenant, pid)
    return _offers("process", f"{name} (pid {pid}){of}", _with_cpus(values, cpus), wanted, victim=victim)


def _tenant(
    window: Window,
    tenant: str,
    cpus: frozenset[int],
    wanted: Collection[Resource] | None = None,
    *,
    victim: bool = False,
) -> list[Offer]:
    found, use = window.tenants.get(tenant), use_of_tenant(window, tenant)
    if found is None:
        return []
    values = _with_cpus(tenant_values(window, tenant), cpus)
    used = use.cpu_ns / (window.seconds or 1.0) / 1e9 if use is not None else 0.0
    if used >= LEAST_USED_CPUS:
        values.known.update(limit_values(used / 2))
    kind = " ".join(part for part in (found.runtime, found.kind) if part)
    return _offers(
        "tenant", f"{found.name or tenant} ({kind}), all its processes", values, wanted, victim=victim
    )


def _with_cpus(values: Values, cpus: frozenset[int]) -> Values:
    if cpus:
        values.known["cpus"] = list_of(cpus)
        values.known["on_cpus"] = f"CPU{'s' if len(cpus) > 1 else ''} {list_of(cpus)}"
    return values


def _offers(
    of: str, about: str, values: Values, wanted: Collection[Resource] | None, *, victim: bool
) -> list[Offer]:
    """Returns the offers for one process or tenant. ``wanted``: only actions that free one of these
    resources, or that end their target; None: all actions."""
    found = []
    for action in ACTIONS:
        if action.of != of or not action.applies(values.known) or (victim and not action.ends):
            continue
        if wanted is not None and not action.ends and not set(wanted) & set(action.frees):
            continue
        does = action.does.format_map(values.known)
        if action.look:
            found.append(Offer(LOOKS, action.text(values.known), f"{about}: {does}", "", look=True))
            continue
        heading = f"{STOPS}{about}" if action.stops else about
        found.append(Offer(heading, action.text(values.known), does, *_undo(action, values)))
    return found


def _undo(action: HostCommand, values: Values) -> tuple[str, str]:
    """Returns the command that undoes an action, and a note about the undo."""
    if not action.undo:
        return "", action.lasting
    if not action.for_undo <= set(values.known):
        return "", _HAND
    usual = (
        "the usual default: the present value is not known"
        if action.usual or action.for_undo & values.assumed
        else ""
    )
    return action.undo.format_map(values.known), usual
