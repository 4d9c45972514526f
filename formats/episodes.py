"""Collects the chains of many windows. Each period in which a chain is open is one episode, with the worst
state of the chain."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stalltop.model.chain import SEVERITIES, Chain
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window


def badness(chain: Chain) -> tuple[int, float]:
    """Return a sort key for chains, the worst first: severity, then lost time."""
    return SEVERITIES.index(chain.severity), -chain.lost_ms_per_s


@dataclass(frozen=True, slots=True)
class Episode:
    """One period in which a chain is open."""

    host: str
    chain: Chain
    """The chain as it was when it was worst. Only ``seen`` and ``open`` are from the last window of the
    episode."""

    @property
    def end(self) -> float:
        """When the chain was last seen, Unix seconds."""
        return max(self.chain.seen, self.chain.since)


class Episodes:
    """Collects episodes and tenants from windows that come in order of time."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, float], Episode] = {}
        self.tenants: dict[tuple[str, str], Tenant] = {}
        """The tenants of all windows, by host and id."""
        self.lost_ms: dict[tuple[str, str], float] = {}
        """Time that each chain cost in all windows together, in ms, by host and identity of the chain."""

    def add(self, window: Window) -> None:
        """Add the chains and tenants of ``window``."""
        for chain in window.chains:
            fault = window.host, chain.identity
            if chain.open:
                cost = chain.lost_ms_per_s * window.seconds
                self.lost_ms[fault] = self.lost_ms.get(fault, 0.0) + cost
            key = *fault, chain.since
            known = self._found.get(key)
            if known is not None and badness(known.chain) <= badness(chain):
                chain = replace(known.chain, seen=max(known.chain.seen, chain.seen), open=chain.open)
            self._found[key] = Episode(window.host, chain)
        for tenant in window.tenants.values():
            self.tenants[window.host, tenant.id] = tenant

    def all(self) -> list[Episode]:
        """Return all episodes, ordered by their beginning."""
        return sorted(self._found.values(), key=lambda one: (one.chain.since, one.end, one.chain.id))

    def name(self, host: str, tenant: str) -> str:
        """Return the name of a tenant, or its id if it has no name."""
        found = self.tenants.get((host, tenant))
        return (found.name if found is not None else "") or tenant
