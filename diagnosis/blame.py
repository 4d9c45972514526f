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
from stalltop.model.chain import Link

REMEMBERED_SECONDS: Final = 5.0
"""Time constant of the exponential weight, s. After it, what was taken counts 1/e. Twice this constant is
averaged over: about as many task switches of ordinary neighbours as give each its share within some percent.
After a change of culprits the new one leads after 0.8 of it, besides the time that rules look back."""
STAYS_FIRST: Final = 1.25
"""Factor by which another culprit must have taken more than the one that is named first, to replace it: the
noise that is left of equal neighbours after ``REMEMBERED_SECONDS``."""
LEAST_REMEMBERED: Final = 1e-3
"""Part of what the greatest culprit took below which a culprit that takes nothing now is forgotten."""
OTHERS: Final = "others"
"""Process name of culprits that are told as one."""
_SEVERAL: Final = re.compile(r" \(\d+ processes\)$")


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
            {pid: {who: weight * sum_ for who, sum_ in by.items()} for pid, by in self.taken.items()},
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
    left = {who for who in taken if who not in named and who._replace(pid=0) not in named}
    known = sum(who.process != OTHERS for who in left) or 1
    more = "" if all(who.pid for who in left) else "at least "
    return f"{OTHERS}, {more}{known} process{'' if known == 1 else 'es'}"
