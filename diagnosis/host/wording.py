"""Words the parts of a chain that all host causes share: the effect, where its time went, and through which
processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from stalltop.diagnosis.facts import Facts, Row
from stalltop.diagnosis.host.losses import Loss, Who
from stalltop.diagnosis.links import link_of
from stalltop.model.chain import Link
from stalltop.model.evidence import HOST_GAP
from stalltop.model.row_key import RowKey

OUTSIDE: Final = "process:"
"""Prefix of the ids of tenants that group processes outside containers by their name."""
ENDED: Final = "process:ended"
"""Tenant of processes that had ended before anything was known of them."""
MOST_CULPRITS: Final = 3
"""Maximum number of culprits named in one chain; the rest are not named."""
SMALLEST_SHARE: Final = 0.05
"""Part of the loss below which a culprit is not named."""

WAITS: Final = {
    "running": "computes",
    "runqueue": "waits for a CPU",
    "disk": "waits for a disk",
    "memory": "waits for memory",
    "lock": "waits for a lock or another thread",
    "network": "waits for the network",
    "process": "waits for another process",
    "sleep": "sleeps",
    "gpu": "waits for its device",
    "other": "waits in the kernel",
}
"""What a thread does in a part of its split."""


_SINGULAR: Final = {"others": "the rest"}
"""Singular nouns for culprits that are reported together."""


def named(facts: Facts, who: Who) -> str:
    """Returns a process as text for people, with its tenant."""
    process = f"{who.process} (pid {who.pid})" if who.pid else _SINGULAR.get(who.process, who.process)
    name = facts.name(who.tenant)
    # The name of a tenant outside containers is that of its program, so it is not repeated.
    return f"{process} of {name}" if who.tenant and name != who.process.partition(" (")[0] else process


def worst(loss: Loss) -> RowKey:
    """Returns the row that lost most."""
    return max(loss.effects, key=lambda key: loss.effects[key])


def row_of(facts: Facts, key: RowKey) -> Row | None:
    """Returns the row with this key, if any of its calls ended in the window."""
    return next((row for row in facts.rows_of(key.pid) if row.key == key), None)


def doing(key: RowKey) -> str:
    """Returns the end of a sentence that says where time is lost, such as ``in cudaMalloc``."""
    return "between its calls" if key.operation == HOST_GAP else f"in {key.operation}"


def effect(facts: Facts, loss: Loss) -> Link:
    """Returns the link that says what is slow."""
    key = worst(loss)
    return link_of(
        key,
        "effect",
        f"{facts.name(key.tenant)} loses time {doing(key)}",
        ns_per_s=facts.per_second(loss.ns),
        depth=0,
    )


def mechanisms(facts: Facts, loss: Loss) -> list[Link]:
    """Returns links that say where the time went: in the victim, then in each worker on the path."""
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
    """Returns the culprits that are large enough to be named, the largest first."""
    ordered = sorted(culprits.items(), key=lambda item: (-item[1], item[0]))
    return [(who, ns) for who, ns in ordered if ns >= SMALLEST_SHARE * total][:MOST_CULPRITS]


def by_tenant(culprits: Mapping[Who, float]) -> list[str]:
    """Returns the culprits' tenants, the one that took most first; culprits without a tenant come last.

    Processes outside containers are grouped only by their name, so such a group counts as much as its largest
    process. Otherwise many unrelated processes would, by turns, precede one that took more.
    """
    taken: dict[str, float] = {}
    for who, ns in culprits.items():
        before = taken.get(who.tenant, 0.0)
        taken[who.tenant] = max(before, ns) if who.tenant.startswith(OUTSIDE) else before + ns
    return sorted(taken, key=lambda tenant: (not tenant, -taken[tenant], tenant))


def ranked(culprits: Mapping[Who, float], total: float) -> list[tuple[Who, float]]:
    """Returns the same as ``largest``, but the processes of the tenant that took most come first.

    Many processes of one name in one tenant, such as a compiler's, are summed into one culprit without a
    process id.
    """
    place = {tenant: number for number, tenant in enumerate(by_tenant(culprits))}
    # Sums of small culprits (process id 0) come after those with a name.
    return sorted(
        largest(_swarms(culprits), total),
        key=lambda item: (place[item[0].tenant], item[0].process in _SINGULAR, -item[1], item[0]),
    )


def members(culprits: Mapping[Who, float], whole: Who) -> list[Who]:
    """Returns the processes that ``ranked`` sums into ``whole``, the one that took most first."""
    name = whole.process.rpartition(" (")[0]
    those = [who for who in culprits if who.pid and (who.tenant, who.process) == (whole.tenant, name)]
    return sorted(those, key=lambda who: (-culprits[who], who))


def _swarms(culprits: Mapping[Who, float]) -> dict[Who, float]:
    """Returns ``culprits``, with more than ``MOST_CULPRITS`` of one name and tenant summed into one."""
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
    """Returns links that name the culprits."""
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
