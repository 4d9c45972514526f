"""Compares the chains of two windows: which problems are new, gone, worse or better."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from stalltop.model.chain import Chain, worst_first
from stalltop.model.window import Window

MUCH: Final = 1.5
"""A loss that changed by less than this factor counts as the same: it varies as much from window to
window."""

State = Literal["new", "worse", "same", "better", "gone"]


@dataclass(frozen=True, slots=True)
class ChainChange:
    """One problem in both windows, or in one of them."""

    then: Chain | None
    now: Chain | None

    @property
    def chain(self) -> Chain:
        """The chain as it is now, or as it was if it is gone."""
        chain = self.now if self.now is not None else self.then
        assert chain is not None, "a change has a chain on one side at least"
        return chain

    @property
    def state(self) -> State:
        """Kind of change, by ``MUCH``."""
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
        """Loss now divided by loss then; None if the chain is in one window only, or nothing was lost
        then."""
        if self.then is None or self.now is None or not self.then.lost_ms_per_s > 0:
            return None
        return self.now.lost_ms_per_s / self.then.lost_ms_per_s

    @property
    def confidence(self) -> float:
        """Lower confidence of both sides, 0 to 1."""
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
    """Pairs the chains of both windows: new ones first, then worse, same, better and gone ones.

    Two chains are the same problem if cause, name of the tenant, program, layer and operation are equal;
    ``name_then`` and ``name_now`` map the id of a tenant to its name. If several chains of one window are the
    same problem, the worst one counts.
    """
    before, after = _by_fault(then, name_then), _by_fault(now, name_now)
    changes = [ChainChange(before.get(fault), after.get(fault)) for fault in {**after, **before}]
    return tuple(sorted(changes, key=lambda change: (_ORDER.index(change.state), worst_first(change.chain))))


class ChainTally:
    """Average loss of every chain over many windows."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._worst: dict[str, Chain] = {}
        self._lost_ms: dict[str, float] = {}

    def add(self, window: Window) -> None:
        """Adds the chains of a window. Chains that are closed in it add no loss."""
        self._seconds += window.seconds
        for chain in window.chains:
            name = chain.identity
            known = self._worst.get(name)
            if known is None or worst_first(replace(chain, open=True)) < worst_first(known):
                self._worst[name] = replace(chain, open=True)
            cost = chain.lost_ms_per_s * window.seconds if chain.open else 0.0
            self._lost_ms[name] = self._lost_ms.get(name, 0.0) + cost

    @property
    def chains(self) -> tuple[Chain, ...]:
        """Each chain once, as it was in its worst window but with its average loss; worst first."""
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
