"""Groups the problems of a window: one alert for each cause and culprit, with all who lose time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from stalltop.formats.text.chains import name_of
from stalltop.model.chain import SEVERITIES, Chain, Severity, worst_first
from stalltop.model.text.words import SEVERAL
from stalltop.model.window import Window


@dataclass(frozen=True, slots=True, eq=False)
class ProblemAlert:
    """Open problems of one cause and one culprit."""

    id: str
    """The same after a restart of stalltop and of the processes: it has no PID and no time."""
    chains: tuple[Chain, ...]
    """The problems, worst first; at least one."""
    window: Window
    """The window that has them."""

    @property
    def worst(self) -> Chain:
        """The worst of the problems."""
        return self.chains[0]

    @property
    def severity(self) -> Severity:
        """The severity of the worst problem."""
        return self.worst.severity

    @property
    def lost_ms_per_s(self) -> float:
        """Lost per second because of all the problems."""
        return sum(chain.lost_ms_per_s for chain in self.chains)

    @property
    def since(self) -> float:
        """Unix time in seconds at which the first of the problems was seen."""
        return min(chain.since for chain in self.chains)

    @property
    def victims(self) -> tuple[str, ...]:
        """Ids of the tenants that lose time, the one with the worst problem first; '' is the host."""
        return tuple(dict.fromkeys(chain.tenant for chain in self.chains))


def alerts_of(window: Window) -> tuple[ProblemAlert, ...]:
    """Returns the alerts of ``window``, worst first. Problems of severity ``info`` are facts, not faults."""
    groups: dict[str, list[Chain]] = defaultdict(list)
    for chain in sorted(window.chains, key=worst_first):
        if chain.open and chain.severity != "info":
            groups[_id(chain, window)].append(chain)
    return tuple(ProblemAlert(key, tuple(chains), window) for key, chains in groups.items())


def _id(chain: Chain, window: Window) -> str:
    """Returns cause and culprit, by names that outlive processes and containers. If no culprit is known, or
    the victim itself is the culprit, the alert is about this victim alone."""
    first = next(iter(chain.culprits), None)
    process = "" if first is None else SEVERAL.sub("", first.process)
    if first is None or first.of_others:
        return f"{chain.cause}/victim:{name_of(chain.tenant, window)}"
    if first.tenant == chain.tenant and (first.tenant or not process):
        return f"{chain.cause}/victim:{name_of(chain.tenant, window)}/{process or first.device}"
    return f"{chain.cause}/{name_of(first.tenant, window) if first.tenant else process or first.device}"


def is_worse(one: Severity, other: Severity) -> bool:
    """Returns True if severity ``one`` is worse than ``other``."""
    return SEVERITIES.index(one) < SEVERITIES.index(other)
