"""Chooses which culprits a chain names, in which order, and writes their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stalltop.diagnosis.blame import STAYS_FIRST, name_of, rest, several
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who
from stalltop.model.chain import OTHERS

OUTSIDE: Final = "process:"
"""Prefix of the ids of tenants that group processes outside containers by their name."""
ENDED: Final = "process:ended"
"""Tenant of processes that had ended before anything was known of them."""
MOST_CULPRITS: Final = 3
"""Maximum number of culprits named in one chain; the rest are summed up in one link."""
SMALLEST_SHARE: Final = 0.05
"""Part of the loss below which a culprit is not named, except the first one."""
LEAST_TOLD: Final = 0.005
"""Part of the loss below which the culprits that are not named are not mentioned: shares are shown in whole
percents."""

_SINGULAR: Final = {OTHERS: "the rest"}
"""How a sentence names culprits that are reported together, in the singular."""


def named(facts: Facts, who: Who) -> str:
    """Returns a process as text for people, with its tenant."""
    process = f"{who.process} (pid {who.pid})" if who.pid else _SINGULAR.get(who.process, who.process)
    name = facts.name(who.tenant)
    # The name of a tenant outside containers is that of its program, so it is not repeated.
    return f"{process} of {name}" if who.tenant and name != who.process.partition(" (")[0] else process


def by_tenant(culprits: Mapping[Who, float], first: Who | None) -> list[str]:
    """Returns the culprits' tenants, the one that took most first; culprits without a tenant come last. The
    tenant of ``first`` stays first until another one took clearly more.

    Processes outside containers are grouped only by their name, so such a group counts as much as its largest
    process. Otherwise a group of many unrelated processes could precede a process that took more than any of
    them.
    """
    taken: dict[str, float] = {}
    for who, ns in culprits.items():
        before = taken.get(who.tenant, 0.0)
        taken[who.tenant] = max(before, ns) if who.tenant.startswith(OUTSIDE) else before + ns
    if first is not None and first.tenant in taken:
        taken[first.tenant] *= STAYS_FIRST
    return sorted(taken, key=lambda tenant: (not tenant, -taken[tenant], tenant))


def ranked(culprits: Mapping[Who, float], total: float, first: Who | None = None) -> list[tuple[Who, float]]:
    """Returns the culprits that a chain names, each with what it took: the main process of the tenant that
    took most, then the largest other ones. ``first`` was named first until now, and stays so until another
    one took clearly more.

    Many processes of one name in one tenant, such as a compiler's, are summed into one culprit without a
    process id.
    """
    place = {tenant: number for number, tenant in enumerate(by_tenant(culprits, first))}

    def order(item: tuple[Who, float]) -> tuple[int, bool, float, Who]:
        who, ns = item
        stays = STAYS_FIRST if first is not None and _as_before(who) == first else 1.0
        # The sum of small culprits comes after culprits with a name.
        return place[who.tenant], who.process in _SINGULAR, -stays * ns, who

    known = {who: ns for who, ns in culprits.items() if who.tenant or who.process not in _SINGULAR}
    ordered = sorted(_swarms(known, first).items(), key=order)
    others = sorted(ordered[1:], key=lambda item: (-item[1], item[0]))[: MOST_CULPRITS - 1]
    large = [item for item in others if item[1] >= SMALLEST_SHARE * total]
    return [*ordered[:1], *sorted(large, key=order)]


def _as_before(who: Who) -> Who:
    return who if who.pid else who._replace(process=name_of(who.process))


def members(culprits: Mapping[Who, float], whole: Who) -> list[Who]:
    """Returns the processes that ``ranked`` sums into ``whole``, the one that took most first."""
    name = name_of(whole.process)
    those = [who for who in culprits if who.pid and (who.tenant, who.process) == (whole.tenant, name)]
    return sorted(those, key=lambda who: (-culprits[who], who))


def main_process(taken: Mapping[Who, float], culprits: Sequence[tuple[Who, float]]) -> Who:
    """Returns the process behind the first entry of ``culprits``. If that entry sums several processes,
    returns the one that took most."""
    whole = culprits[0][0]
    return whole if whole.pid else next(iter(members(taken, whole)), whole)


def _swarms(culprits: Mapping[Who, float], first: Who | None) -> dict[Who, float]:
    """Returns ``culprits`` with processes of one name and tenant summed into one culprit, if there are more
    than ``MOST_CULPRITS`` of them, or at least two that were summed until now. What processes took that have
    ended (process id 0) is added to the others of their name."""
    same: dict[tuple[str, str], list[Who]] = {}
    for who in culprits:
        same.setdefault((who.tenant, who.process), []).append(who)
    found: dict[Who, float] = {}
    for (tenant, process), members in same.items():
        one = Who(tenant, 0, process)
        alive = [who for who in members if who.pid]
        if len(alive) > MOST_CULPRITS or (len(alive) > 1 and (one in members or one == first)):
            whole = one._replace(process=several(process, len(alive)))
            found[whole] = sum(culprits[who] for who in members)
        elif len(alive) == 1:
            found[alive[0]] = sum(culprits[who] for who in members)
        else:
            found |= {who: culprits[who] for who in members}
    return found


def untold(
    taken: Mapping[Who, float], culprits: Sequence[tuple[Who, float]], total: float
) -> tuple[str, float]:
    """Returns a text for those culprits of ``taken`` that a chain does not name, and what they took together.
    ``culprits`` are those that it names, ``total`` is the whole loss. Returns ('', 0) if the others took too
    little to be mentioned."""
    amount = sum(taken.values()) - sum(ns for _, ns in culprits)
    if amount < LEAST_TOLD * total:
        return "", 0.0
    return rest(taken, [_as_before(who) for who, _ in culprits]), amount
