"""The parts of a chain that all host causes share: the effect, where its time went, and through whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from stalltop.diagnosis.facts import Facts, Row
from stalltop.diagnosis.host.attribution import Loss, Who
from stalltop.diagnosis.links import link_of
from stalltop.model.chain import Link
from stalltop.model.evidence import HOST_GAP
from stalltop.model.window import RowKey

OUTSIDE: Final = "process:"
"""How the ids of tenants begin that are processes in no container, put together by their name."""
ENDED: Final = "process:ended"
"""Processes that had ended before anything was known of them."""
MOST_CULPRITS: Final = 3
"""Named in one chain; the rest share what is left."""
SMALLEST_SHARE: Final = 0.05
"""Of the loss: who took less is not named."""

WAITS: Final = {
    "running": "computes",
    "runqueue": "waits for a CPU",
    "disk": "waits for a disk",
    "memory": "waits for memory",
    "lock": "waits for a lock or another thread",
    "network": "waits for the network",
    "process": "waits for another process",
    "other": "waits in the kernel",
}
"""What a thread does in a part of its split."""


_SINGULAR: Final = {"others": "the rest"}
"""Culprits that are told together, as a subject of the sentences about one."""


def named(facts: Facts, who: Who) -> str:
    """A process as a person reads it, with its tenant."""
    process = f"{who.process} (pid {who.pid})" if who.pid else _SINGULAR.get(who.process, who.process)
    name = facts.name(who.tenant)
    # What is in no container is a tenant that has its program's name.
    return f"{process} of {name}" if who.tenant and name != who.process.partition(" (")[0] else process


def worst(loss: Loss) -> RowKey:
    """The row that lost most."""
    return max(loss.effects, key=lambda key: loss.effects[key])


def row_of(facts: Facts, key: RowKey) -> Row | None:
    """The row with this key, where anything of it ended in the window."""
    return next((row for row in facts.rows_of(key.pid) if row.key == key), None)


def doing(key: RowKey) -> str:
    """An operation as the object of a sentence."""
    return "between its calls" if key.operation == HOST_GAP else f"in {key.operation}"


def effect(facts: Facts, loss: Loss) -> Link:
    """What is slow."""
    key = worst(loss)
    return link_of(
        key,
        "effect",
        f"{facts.name(key.tenant)} loses time {doing(key)}",
        ns_per_s=facts.per_second(loss.ns),
        depth=0,
    )


def mechanisms(facts: Facts, loss: Loss) -> list[Link]:
    """Where the time went: in the victim, then in each worker on the way."""
    part = max(loss.parts, key=lambda name: loss.parts[name])
    before = loss.victim
    links = []
    for depth, worker in enumerate(loss.path, start=1):
        text = f"{before.process} waits for {named(facts, worker)}"
        links.append(_step(facts, loss, text, before, depth))
        before = worker
    last = max(loss.last_parts, key=lambda name: loss.last_parts[name]) if loss.path else part
    text = f"{before.process} {WAITS[last]}"
    links.append(_step(facts, loss, text, before, len(loss.path) + 1))
    return links


def _step(facts: Facts, loss: Loss, text: str, who: Who, depth: int) -> Link:
    share = 1.0
    if depth > 1 and loss.ns:
        share = min(loss.paths[loss.path] / loss.ns, 1.0)
    return link_of(
        who,
        "mechanism",
        text,
        share=share,
        ns_per_s=facts.per_second(loss.ns * share),
        depth=depth,
    )


def largest(culprits: Mapping[Who, float], total: float) -> list[tuple[Who, float]]:
    """Those worth a line, the largest first."""
    ordered = sorted(culprits.items(), key=lambda item: (-item[1], item[0]))
    return [(who, ns) for who, ns in ordered if ns >= SMALLEST_SHARE * total][:MOST_CULPRITS]


def by_tenant(culprits: Mapping[Who, float]) -> list[str]:
    """The culprits' tenants, the one that took most first; what is of no tenant comes last.

    Processes in no container are put together by their name alone: they count as much as the largest of them.
    Otherwise many that have nothing to do with each other would lead, by turns, before one that took more.
    """
    taken: dict[str, float] = {}
    for who, ns in culprits.items():
        before = taken.get(who.tenant, 0.0)
        taken[who.tenant] = max(before, ns) if who.tenant.startswith(OUTSIDE) else before + ns
    return sorted(taken, key=lambda tenant: (not tenant, -taken[tenant], tenant))


def ranked(culprits: Mapping[Who, float], total: float) -> list[tuple[Who, float]]:
    """Like ``largest``, but the processes of the tenant that took most come first.

    Many of one name in one tenant, such as a compiler's, are told as one, without a process id.
    """
    place = {tenant: number for number, tenant in enumerate(by_tenant(culprits))}
    # Small ones that are told together (process id 0) stand behind those with a name.
    return sorted(
        largest(_swarms(culprits), total),
        key=lambda item: (place[item[0].tenant], item[0].process in _SINGULAR, -item[1], item[0]),
    )


def members(culprits: Mapping[Who, float], whole: Who) -> list[Who]:
    """The processes that ``ranked`` tells together as ``whole``, the one that took most first."""
    name = whole.process.rpartition(" (")[0]
    those = [who for who in culprits if who.pid and (who.tenant, who.process) == (whole.tenant, name)]
    return sorted(those, key=lambda who: (-culprits[who], who))


def _swarms(culprits: Mapping[Who, float]) -> dict[Who, float]:
    """``culprits``, with more than ``MOST_CULPRITS`` of one name and tenant as one."""
    same: dict[tuple[str, str], list[Who]] = {}
    for who in culprits:
        same.setdefault((who.tenant, who.process), []).append(who)
    found: dict[Who, float] = {}
    for (tenant, process), members in same.items():
        if len(members) > MOST_CULPRITS:
            whole = Who(tenant, 0, f"{process} ({len(members)} processes)")
            found[whole] = sum(culprits[who] for who in members)
        else:
            found |= {who: culprits[who] for who in members}
    return found


def blamed(
    facts: Facts, loss: Loss, verb: str, culprits: Iterable[tuple[Who, float]], depth: int
) -> list[Link]:
    """Who took the time."""
    return [
        link_of(
            who,
            "culprit",
            f"{named(facts, who)} {verb}",
            share=min(ns / loss.ns, 1.0) if loss.ns else None,
            ns_per_s=facts.per_second(ns),
            depth=depth,
        )
        for who, ns in culprits
    ]
