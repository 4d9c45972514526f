"""Adds up over time whom a chain blames, so that it does not name another culprit every second.

On a busy host several processes take about equally much, and each second a different one takes most. A chain
therefore ranks culprits by a sum of what each took since the cause was first seen, in which older amounts
count less. It keeps naming the same culprit first until another one has clearly taken more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from stalltop.diagnosis.links import Who
from stalltop.model.chain import OTHERS, Link

REMEMBERED_SECONDS: Final = 5.0
"""Time constant of the exponential weight, s: what was taken this long ago counts 1/e. An exponential weight
needs no history, and has no edge at which an old burst suddenly drops out. With this constant a sum averages
over about ten seconds. A new culprit that takes as much as the old one did is named first after about this
time, plus the second or two that rules look back."""
STAYS_FIRST: Final = 1.5
"""Factor by which another culprit must have taken more than the one that is named first, to replace it. Two
processes with equal means whose use varies by ±50 % from second to second rarely have sums that differ by
this factor, so the name does not flip."""
LEAST_REMEMBERED: Final = 1e-3
"""A culprit that takes nothing now is forgotten once its sum is below this part of the greatest culprit's
sum."""
_SEVERAL: Final = re.compile(r" \(\d+ processes\)$")


ChainKey = tuple[str, str, str]
"""What a chain is about: its cause, the tenant that loses, and ``Suspicion.about``."""


@dataclass(frozen=True, slots=True)
class Blame:
    """The culprits that a chain has blamed so far."""

    first: Who | None = None
    """The culprit that the chain named first."""
    taken: Mapping[int, Mapping[Who, float]] = field(default_factory=dict)
    """For each process that loses time (by PID): the weighted sum of what each culprit took."""

    def faded(self, seconds: float) -> Blame:
        """Returns this blame with all sums reduced to their weight after ``seconds`` more."""
        weight = math.exp(-max(seconds, 0.0) / REMEMBERED_SECONDS)
        return Blame(
            self.first,
            {pid: {who: weight * taken for who, taken in by.items()} for pid, by in self.taken.items()},
        )


def remembered(
    before: Mapping[Who, float], now: Mapping[Who, float], alive: Collection[int]
) -> dict[Who, float]:
    """Returns the weighted sums ``before`` plus what culprits take ``now``.

    A process that takes nothing now and is not among ``alive`` has ended, and cannot be stopped any more. If
    other processes of its name and tenant take time now, as compilers that follow each other do, its sum goes
    to one culprit without a PID that stands for all of them. Otherwise its sum is dropped.
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


def culprit_of(link: Link) -> Who:
    """Returns the culprit that a link names. If the link names several processes together, returns their name
    without a PID and without their number, because the number changes."""
    return Who(link.tenant, link.pid, link.process if link.pid else name_of(link.process))


def name_of(process: str) -> str:
    """Returns a process name without the count that `several` adds: ``cc1`` for ``cc1 (8 processes)``."""
    return _SEVERAL.sub("", process)


def several(process: str, count: int) -> str:
    """Returns the text for ``count`` processes of one name."""
    return f"{process} ({count} processes)"


def rest(taken: Iterable[Who], named: Collection[Who]) -> str:
    """Returns the text for the culprits of ``taken`` that a chain does not name. ``named`` has those that it
    names, in the form that `culprit_of` returns."""
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
    return f"{OTHERS}, {more}{known} process{'' if known == 1 else 'es'}"
