"""Steps of a chain that speak of one process."""

from __future__ import annotations

from typing import Protocol

from stalltop.model.chain import Link, Role


class Process(Protocol):
    """Whatever belongs to one process: a row, an open call, a rank, the process itself."""

    @property
    def tenant(self) -> str:
        """Id of its tenant."""

    @property
    def pid(self) -> int:
        """Its id."""

    @property
    def process(self) -> str:
        """Its name."""


def link_of(
    who: Process,
    role: Role,
    text: str,
    *,
    share: float | None = None,
    ns_per_s: float | None = None,
    device: str = "",
    depth: int = 1,
) -> Link:
    """A step that speaks of the process of ``who``; the rest is that of ``Link``."""
    return Link(
        role,
        text,
        share=share,
        ns_per_s=ns_per_s,
        tenant=who.tenant,
        pid=who.pid,
        process=who.process,
        device=device,
        depth=depth,
    )
