"""Compares the chains of two windows: which problems are new, gone, worse or better."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from stalltop.model.chain import Chain, in_window, worst_first
from stalltop.model.window import Window

MUCH: Final = 1.5
"""Factor by which a loss must change to count as worse or better. Even if nothing changed, the loss by one
cause varies by nearly this factor from window to window."""

State = Literal["new", "worse", "same", "better", "gone"]


@dataclass(frozen=True, slots=True)
class ChainChange:
    """One problem in two windows: the earlier window ``then`` and the later window ``now``. If a window does
    not have the problem, its field is None."""

    then: Chain | None
    now: Chain | None

    @property
    def chain(self) -> Chain:
        """The chain of the window ``now``; if the problem is gone, the chain of the window ``then``."""
        chain = self.now if self.now is not None else self.then
        assert chain is not None, "a change needs a problem in at least one of the two windows"
        return chain

    @property
    def state(self) -> State:
        """Kind of change. A loss is worse or better only if it changed by more than the factor ``MUCH``."""
        if self.then is None:
            return "new"
        if self.now is None:
            return "gone"
        before, after = self.then.lost_ms_per_s, self.now.lost_ms_per_s
        if after > before * MUCH:
            return "worse"
        return "better" if after * MUCH < before else "same"

    @property
    def more_ms_per_s(self) -> float:
        """Loss now minus loss then, ms per second."""
        return (self.now.lost_ms_per_s if self.now else 0.0) - (self.then.lost_ms_per_s if self.then else 0.0)

    @property
    def ratio(self) -> float | None:
        """Loss now divided by loss then; None if only one window has the chain, or if the loss then was 0."""
        if self.then is None or self.now is None or not self.then.lost_ms_per_s > 0:
            return None
        return self.now.lost_ms_per_s / self.then.lost_ms_per_s

    @property
    def confidence(self) -> float:
        """The lower of the two confidences, 0 to 1; if only one window has the chain, its confidence."""
        return min(chain.confidence for chain in (self.then, self.now) if chain is not None)

    @property
    def fault(self) -> bool:
        """False for chains of severity ``info``, which are not faults."""
        return self.chain.severity != "info"


def shares(changes: Sequence[ChainChange]) -> list[float]:
    """Returns the share of each change in the sum of all changes of loss (absolute values), 0 to 1."""
    whole = sum(abs(change.more_ms_per_s) for change in changes)
    return [abs(change.more_ms_per_s) / whole if whole else 0.0 for change in changes]


_ORDER: Final[tuple[State, ...]] = ("new", "worse", "same", "better", "gone")


def compare_chains(
    then: Iterable[Chain],
    now: Iterable[Chain],
    name_then: Callable[[str], str],
    name_now: Callable[[str], str],
) -> tuple[ChainChange, ...]:
    """Pairs the chains of two windows. New chains come first, then those that are worse, the same, better and
    gone.

    Two chains are the same problem if cause, name of the tenant, program, layer and operation are equal;
    ``name_then`` and ``name_now`` map the id of a tenant to its name. If several chains of one window are the
    same problem, only the worst of them is compared.
    """
    before, after = _by_fault(then, name_then), _by_fault(now, name_now)
    changes = [ChainChange(before.get(fault), after.get(fault)) for fault in {**after, **before}]
    return tuple(sorted(changes, key=lambda change: (_ORDER.index(change.state), worst_first(change.chain))))


class ChainTally:
    """Averages the loss of each chain over many windows."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._start = math.inf
        self._worst: dict[str, Chain] = {}
        self._lost_ms: dict[str, float] = {}

    def add(self, window: Window) -> None:
        """Adds the chains of ``window``. Closed chains add no loss, but are in ``chains``, unless they ended
        before the first window."""
        self._seconds += window.seconds
        self._start = min(self._start, window.start)
        for chain in window.chains:
            if not in_window(chain, self._start):
                continue
            name = chain.identity
            known = self._worst.get(name)
            if known is None or worst_first(replace(chain, open=True)) < worst_first(known):
                self._worst[name] = replace(chain, open=True)
            cost = chain.lost_ms_per_s * window.seconds if chain.open else 0.0
            self._lost_ms[name] = self._lost_ms.get(name, 0.0) + cost

    @property
    def chains(self) -> tuple[Chain, ...]:
        """Each chain once, worst first. A chain is as it was in the window in which it was worst, except that
        ``lost_ms_per_s`` is the average over all windows and ``open`` is True."""
        seconds = self._seconds or 1.0
        found = [
            replace(chain, lost_ms_per_s=self._lost_ms[name] / seconds) for name, chain in self._worst.items()
        ]
        return tuple(sorted(found, key=worst_first))


_Fault = tuple[str, str, str, str, str]


def _by_fault(chains: Iterable[Chain], name: Callable[[str], str]) -> dict[_Fault, Chain]:
    found: dict[_Fault, Chain] = {}
    for chain in sorted(chains, key=worst_first):
        fault = chain.cause, name(chain.tenant), chain.process, chain.layer, chain.operation
        found.setdefault(fault, chain)
    return found
