"""Every chain that windows tell of, each once, as it was known last."""

from __future__ import annotations

from dataclasses import dataclass

from model.chain import Chain
from model.tenant import Tenant
from model.window import Window


@dataclass(frozen=True, slots=True)
class Episode:
    """A chain from when it was first seen until it was over, or until nothing more is known."""

    host: str
    chain: Chain
    """As the last window that tells of it has it."""

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

    def add(self, window: Window) -> None:
        """Take in what ``window`` says."""
        for chain in window.chains:
            self._found[window.host, chain.identity, chain.since] = Episode(window.host, chain)
        for tenant in window.tenants.values():
            self.tenants[window.host, tenant.id] = tenant

    def all(self) -> list[Episode]:
        """All of them, by when they began."""
        return sorted(self._found.values(), key=lambda one: (one.chain.since, one.end, one.chain.id))

    def name(self, host: str, tenant: str) -> str:
        """What a person calls a tenant."""
        found = self.tenants.get((host, tenant))
        return (found.name if found is not None else "") or tenant
