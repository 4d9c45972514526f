"""Identifies processes, and makes links that name a process."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from stalltop.model.chain import Link, Role


class Process(Protocol):
    """Anything that belongs to one process, such as a row, an open call or a rank, or the process itself."""

    @property
    def tenant(self) -> str:
        """Returns the id of the process's tenant."""

    @property
    def pid(self) -> int:
        """Returns the process id."""

    @property
    def process(self) -> str:
        """Returns the name of the process."""


class Who(NamedTuple):
    """Identifies one process."""

    tenant: str
    pid: int
    process: str


def who_of(one: Process) -> Who:
    """Returns the process to which ``one`` belongs."""
    return Who(one.tenant, one.pid, one.process)


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
    """Returns a link that names the process ``who``. The other arguments are the fields of ``Link``."""
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
