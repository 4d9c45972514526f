"""Every chain that windows tell of, each once, as it was when it was worst."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stalltop.model.chain import SEVERITIES, Chain
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window


def badness(chain: Chain) -> tuple[int, float]:
    """Sort key, the worst first: by severity, then by loss, whether it still goes on or not."""
    return SEVERITIES.index(chain.severity), -chain.lost_ms_per_s


@dataclass(frozen=True, slots=True)
class Episode:
    """A chain from when it was first seen until it was over, or until nothing more is known."""

    host: str
    chain: Chain
    """As it was when it was worst; when it was seen, and whether it goes on, as it was known last."""

    @property
    def end(self) -> float:
        """Unix time, seconds: when it was last seen."""
        return max(self.chain.seen, self.chain.since)


class Episodes:
    """Collects them from windows that come in order of time."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, float], Episode] = {}
        self.tenants: dict[tuple[str, str], Tenant] = {}
        """Of all windows, by host and id."""
        self.lost_ms: dict[tuple[str, str], float] = {}
        """What chains cost in all, by host and identity."""

    def add(self, window: Window) -> None:
        """Take in what ``window`` says."""
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
        """All of them, by when they began."""
        return sorted(self._found.values(), key=lambda one: (one.chain.since, one.end, one.chain.id))

    def name(self, host: str, tenant: str) -> str:
        """What a person calls a tenant."""
        found = self.tenants.get((host, tenant))
        return (found.name if found is not None else "") or tenant
