"""Chooses which culprits a chain names and in which order, and writes their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stalltop.diagnosis.blame import STAYS_FIRST, name_of, rest, several
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who
from stalltop.model.chain import OTHERS
from stalltop.model.text.words import program_of

OUTSIDE: Final = "process:"
"""Prefix of tenant ids that stand for processes outside containers. All such processes of one name are one
tenant."""
ENDED: Final = "process:ended"
"""Id of the tenant of processes that ended before stalltop knew anything about them."""
MOST_CULPRITS: Final = 3
"""Maximum number of culprits that a chain names. All others share one link."""
SMALLEST_SHARE: Final = 0.05
"""A culprit other than the first is named only if it took at least this part of the loss."""
LEAST_TOLD: Final = 0.005
"""The culprits that are not named are mentioned only if together they took at least this part of the loss. A
smaller share would be shown as 0 %."""

_SINGULAR: Final = {OTHERS: "the rest"}
"""What a sentence says instead of ``OTHERS``, the process name that stands for several culprits together. It
takes a verb in the singular, as a process does: "the rest holds the lock"."""


def named(facts: Facts, who: Who) -> str:
    """Returns the name and PID of a process with its tenant, as shown to users."""
    process = who.process if who.pid else _SINGULAR.get(who.process, who.process)
    return program_of(process, who.pid, facts.name(who.tenant) if who.tenant else "")


def by_tenant(culprits: Mapping[Who, float], first: Who | None) -> list[str]:
    """Returns the ids of the culprits' tenants; the tenant whose processes took most comes first, '' last.
    The tenant of ``first`` stays first until another one has clearly taken more.

    Processes outside containers form a group only because they have the same name. Such a group counts as
    much as its largest process. Otherwise a group of many unrelated processes could come before a process
    that took more than any of them.
    """
    taken: dict[str, float] = {}
    for who, ns in culprits.items():
        before = taken.get(who.tenant, 0.0)
        taken[who.tenant] = max(before, ns) if who.tenant.startswith(OUTSIDE) else before + ns
    if first is not None and first.tenant in taken:
        taken[first.tenant] *= STAYS_FIRST
    return sorted(taken, key=lambda tenant: (not tenant, -taken[tenant], tenant))


def ranked(culprits: Mapping[Who, float], total: float, first: Who | None = None) -> list[tuple[Who, float]]:
    """Returns the culprits that a chain names, each with the amount that it took. The first is the main
    process of the tenant that took most; the largest other ones follow. ``first`` is the culprit that was
    named first so far. It stays first until another one has clearly taken more.

    Many processes of one name in one tenant, such as those of a compiler, become one culprit without a
    process id.
    """
    place = {tenant: number for number, tenant in enumerate(by_tenant(culprits, first))}

    def order(item: tuple[Who, float]) -> tuple[int, bool, float, Who]:
        who, ns = item
        stays = STAYS_FIRST if first is not None and _as_before(who) == first else 1.0
        # Within a tenant, an entry that sums up many small culprits comes after named culprits.
        return place[who.tenant], who.process in _SINGULAR, -stays * ns, who

    known = {who: ns for who, ns in culprits.items() if who.tenant or who.process not in _SINGULAR}
    ordered = sorted(_swarms(known, first).items(), key=order)
    others = sorted(ordered[1:], key=lambda item: (-item[1], item[0]))[: MOST_CULPRITS - 1]
    large = [item for item in others if item[1] >= SMALLEST_SHARE * total]
    return [*ordered[:1], *sorted(large, key=order)]


def _as_before(who: Who) -> Who:
    return who if who.pid else who._replace(process=name_of(who.process))


def members(culprits: Mapping[Who, float], whole: Who) -> list[Who]:
    """Returns the processes that ``ranked`` sums up in ``whole``, the one that took most first."""
    name = name_of(whole.process)
    those = [who for who in culprits if who.pid and (who.tenant, who.process) == (whole.tenant, name)]
    return sorted(those, key=lambda who: (-culprits[who], who))


def main_process(taken: Mapping[Who, float], culprits: Sequence[tuple[Who, float]]) -> Who:
    """Returns the first process of ``culprits``. If the first entry sums up several processes, returns the
    one of them that took most."""
    whole = culprits[0][0]
    return whole if whole.pid else next(iter(members(taken, whole)), whole)


def _swarms(culprits: Mapping[Who, float], first: Who | None) -> dict[Who, float]:
    """Returns ``culprits``, but sums up processes of one name and tenant in one culprit if they are many:
    more than ``MOST_CULPRITS``, or at least two if they were summed up before.

    If some processes of a name have ended (their process id is 0), what they took is added to the others.
    """
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
    """Returns a text for the culprits of ``taken`` that a chain does not name, and how much they took
    together. ``culprits`` are those that the chain names; ``total`` is the whole loss. Returns ('', 0) if the
    unnamed ones took too little to be mentioned."""
    amount = sum(taken.values()) - sum(ns for _, ns in culprits)
    if amount < LEAST_TOLD * total:
        return "", 0.0
    return rest(taken, [_as_before(who) for who, _ in culprits]), amount
