"""Adds up over time what each culprit of a chain took, so that the chain does not name another culprit every
second. On a busy host several processes take about the same amount, and each second a different one takes
most. A chain therefore ranks its culprits by a weighted sum of what each has taken since the cause was first
seen. Older amounts have less weight. The culprit that the chain names first stays first until another culprit
has clearly taken more.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from stalltop.diagnosis.links import Who
from stalltop.model.chain import OTHERS, Link
from stalltop.model.text.words import SEVERAL, numbered

REMEMBERED_SECONDS: Final = 5.0
"""Time constant of the exponential weight, s: an amount that was taken this long ago counts 1/e of it. An
exponential weight needs no history, and an old burst fades instead of dropping out suddenly.

With this constant a sum averages over about ten seconds. If a new culprit takes as much as the old one did,
it is named first after about five seconds, plus the second or two that rules look back.
"""
STAYS_FIRST: Final = 1.5
"""Another culprit is named first once its sum is larger than that of the present first one by this factor. If
two processes take the same on average, with variations of ±50 % from second to second, their sums rarely
differ by this factor. So the name does not flip."""
LEAST_REMEMBERED: Final = 1e-3
"""A culprit that takes nothing now is forgotten once its sum is below this part of the largest sum."""


ChainKey = tuple[str, str, str]
"""Identifies a chain: its cause, the tenant that loses time, and ``Suspicion.about``."""


@dataclass(frozen=True, slots=True)
class Blame:
    """The culprits that a chain has blamed so far."""

    first: Who | None = None
    """The culprit that the chain named first."""
    taken: Mapping[int, Mapping[Who, float]] = field(default_factory=dict)
    """For each process that loses time (by PID): the weighted sum of what each culprit took."""

    def faded(self, seconds: float) -> Blame:
        """Returns this blame as it is ``seconds`` later: all sums are multiplied by the weight for this
        time."""
        weight = math.exp(-max(seconds, 0.0) / REMEMBERED_SECONDS)
        return Blame(
            self.first,
            {pid: {who: weight * taken for who, taken in by.items()} for pid, by in self.taken.items()},
        )


def remembered(
    before: Mapping[Who, float], now: Mapping[Who, float], alive: Collection[int]
) -> dict[Who, float]:
    """Adds what culprits take ``now`` to the weighted sums ``before``, and returns the new sums.

    A process has ended if it takes nothing now and is not among ``alive``. If other processes of the same
    name and tenant take time now (such as compilers that start one after the other), its sum goes to a
    culprit without a PID, which stands for all processes of that name. Otherwise its sum is dropped.
    """
    present = {(who.tenant, who.process) for who in now}
    most = max(before.values(), default=0.0)
    sums = dict(now)
    for who, taken in before.items():
        if who in now or (who.pid in alive and taken >= LEAST_REMEMBERED * most):
            sums[who] = sums.get(who, 0.0) + taken
        elif (who.tenant, who.process) in present:
            successors = who._replace(pid=0)
            sums[successors] = sums.get(successors, 0.0) + taken
    return sums


def in_order(culprits: Iterable[Who], taken: Mapping[Who, float], first: Who | None) -> list[Who]:
    """Sorts ``culprits`` by how much they have ``taken`` over time, the largest first. ``first``, the one
    that was named first so far, stays first until another one has clearly taken more (``STAYS_FIRST``)."""
    return sorted(culprits, key=lambda who: taken[who] * (STAYS_FIRST if who == first else 1.0), reverse=True)


def culprit_of(link: Link) -> Who:
    """Returns the culprit that a link names. If the link names several processes together, the result has no
    PID, and the name lacks their number, because this number changes."""
    return Who(link.tenant, link.pid, link.process if link.pid else name_of(link.process))


def first_culprit(links: Iterable[Link]) -> Who | None:
    """Returns the culprit that the first link of role ``culprit`` names; None if there is no such link."""
    return next((culprit_of(link) for link in links if link.role == "culprit"), None)


def name_of(process: str) -> str:
    """Returns ``process`` without the number of processes that `several` adds: ``cc1`` for ``cc1 (8
    processes)``."""
    return SEVERAL.sub("", process)


def several(process: str, count: int) -> str:
    """Returns the text for ``count`` processes of one name, such as ``cc1 (8 processes)``."""
    return f"{process} ({count} processes)"


def rest(taken: Iterable[Who], named: Collection[Who]) -> str:
    """Returns a text that says how many culprits of ``taken`` a chain does not name. ``named`` has the
    culprits that it names, as `culprit_of` returns them."""
    told = {(who.tenant, who.process) for who in named}
    left = {
        who
        for who in taken
        if who not in named
        and who._replace(pid=0) not in named
        and (who.pid or (who.tenant, who.process) not in told)
    }
    known = sum(who.process != OTHERS for who in left) or 1
    more = "" if all(who.pid for who in left) else "at least "
    return f"{OTHERS}, {more}{numbered(known, 'process', 'processes')}"
