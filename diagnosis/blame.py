"""Adds up over time whom a chain blames, so that it does not name another culprit every second.

On a busy host several processes take about as much, and each second another one takes most. A chain therefore
blames by the sum of what each took since it is followed, in which the past counts less and less, and keeps
naming the same culprit first until another one has clearly taken more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from stalltop.diagnosis.host.losses import Who
from stalltop.model.chain import OTHERS, Link

REMEMBERED_SECONDS: Final = 5.0
"""Time constant of the exponential weight, s: what was taken that long ago counts 1/e. An exponential weight
needs no history, and has no edge at which an old burst suddenly drops out. With this constant a sum averages
over about ten seconds. A new culprit, of the same size, comes first after about this constant, and the second
or two that rules look back."""
STAYS_FIRST: Final = 1.5
"""Factor by which another culprit must have taken more than the one that is named first, to replace it. Sums
of neighbours that take between half and one and a half times their mean each second hardly differ as much."""
LEAST_REMEMBERED: Final = 1e-3
"""Part of what the greatest culprit took below which a culprit that takes nothing now is forgotten."""
_SEVERAL: Final = re.compile(r" \(\d+ processes\)$")


ChainKey = tuple[str, str, str]
"""What a chain is about: its cause, the tenant that loses, and ``Suspicion.about``."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Whom a chain blamed until now."""

    first: Who | None = None
    """The culprit that it named first."""
    taken: Mapping[int, Mapping[Who, float]] = field(default_factory=dict)
    """By process that loses: what each culprit took, as a weighted sum."""

    def faded(self, seconds: float) -> Blame:
        """Returns the same ``seconds`` later."""
        weight = math.exp(-max(seconds, 0.0) / REMEMBERED_SECONDS)
        return Blame(
            self.first,
            {pid: {who: weight * taken for who, taken in by.items()} for pid, by in self.taken.items()},
        )


def remembered(
    before: Mapping[Who, float], now: Mapping[Who, float], alive: Collection[int]
) -> dict[Who, float]:
    """Returns the sums of ``before`` with what culprits take ``now``.

    A process that takes nothing now and is not among ``alive`` has ended, and cannot be stopped any more. If
    others of its name take its place, as compilers do, they stand for it; else it is forgotten.
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
    """Returns the culprit that a link names. Of several processes named together only the name is kept,
    because their number changes."""
    return Who(link.tenant, link.pid, link.process if link.pid else name_of(link.process))


def name_of(process: str) -> str:
    """Returns the name in the text for one or several processes, such as ``cc1 (8 processes)``."""
    return _SEVERAL.sub("", process)


def several(process: str, count: int) -> str:
    """Returns the text for ``count`` processes of one name."""
    return f"{process} ({count} processes)"


def rest(taken: Iterable[Who], named: Collection[Who]) -> str:
    """Returns the text for those of ``taken`` that are not among ``named``, as `culprit_of` returns them."""
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
