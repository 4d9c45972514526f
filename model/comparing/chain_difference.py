"""Which faults are new, gone, worse or better: chains of one window against those of another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from stalltop.model.chain import Chain, worst_first
from stalltop.model.window import Window

MUCH: Final = 1.5
"""A loss that changed by less than this factor is called the same: it differs as much between two looks."""

State = Literal["new", "worse", "same", "better", "gone"]


@dataclass(frozen=True, slots=True)
class ChainChange:
    """One fault on both sides."""

    then: Chain | None
    now: Chain | None

    @property
    def chain(self) -> Chain:
        """As it is now, or as it was where it is gone."""
        chain = self.now if self.now is not None else self.then
        assert chain is not None, "a fault was seen on one side at least"
        return chain

    @property
    def state(self) -> State:
        """How it changed."""
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
        """What is lost more now than then, ms a second."""
        return (self.now.lost_ms_per_s if self.now else 0.0) - (self.then.lost_ms_per_s if self.then else 0.0)

    @property
    def ratio(self) -> float | None:
        """What is lost now against then; None where it is on one side only, or nothing was lost."""
        if self.then is None or self.now is None or not self.then.lost_ms_per_s > 0:
            return None
        return self.now.lost_ms_per_s / self.then.lost_ms_per_s

    @property
    def confidence(self) -> float:
        """0 to 1: that of the side that is less sure."""
        return min(chain.confidence for chain in (self.then, self.now) if chain is not None)

    @property
    def fault(self) -> bool:
        """Whether something is wrong, rather than worth knowing."""
        return self.chain.severity != "info"


def shares(changes: Sequence[ChainChange]) -> list[float]:
    """The part of all change in what is lost, 0 to 1, that each of ``changes`` is."""
    whole = sum(abs(change.more_ms_per_s) for change in changes)
    return [abs(change.more_ms_per_s) / whole if whole else 0.0 for change in changes]


_ORDER: Final[tuple[State, ...]] = ("new", "worse", "same", "better", "gone")


def compare_chains(
    then: Iterable[Chain],
    now: Iterable[Chain],
    name_then: Callable[[str], str],
    name_now: Callable[[str], str],
) -> tuple[ChainChange, ...]:
    """Every fault of both sides, new ones first, then those that became worse, the worst first.

    Two chains are the same fault where cause, tenant, program and operation are; ``name_then`` and
    ``name_now`` give the name of a tenant by its id. Of several on one side the worst one counts.
    """
    before, after = _by_fault(then, name_then), _by_fault(now, name_now)
    changes = [ChainChange(before.get(fault), after.get(fault)) for fault in {**after, **before}]
    return tuple(sorted(changes, key=lambda change: (_ORDER.index(change.state), worst_first(change.chain))))


class ChainTally:
    """What every chain of many windows cost, on average over all their time."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._worst: dict[str, Chain] = {}
        self._lost_ms: dict[str, float] = {}

    def add(self, window: Window) -> None:
        """Take in the chains of a window; those that were over in it cost nothing more."""
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
        """Each chain once, as it was when it was worst, with the average of what it cost; worst first."""
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
