"""Says which process traced a window."""

from __future__ import annotations

from dataclasses import dataclass

from stalltop.model.text import figures


@dataclass(frozen=True, slots=True)
class Tracer:
    """The process that traces a host, and whose windows others show."""

    pid: int = 0
    """Its process id, as it sees it itself; a container may have another number for it."""
    user: str = ""
    since: float = 0.0
    """Unix time at which it began to trace, seconds."""
    command: str = ""
    """Its command line, such as ``stalltop record``."""

    @property
    def short(self) -> str:
        """Its user and process id, for the first line of the screen."""
        return f"{self.user} {self.pid}"

    @property
    def text(self) -> str:
        """Process id, user, start and command in one line."""
        return f"PID {self.pid} of {self.user}, since {figures.moment(self.since)[:19]}: {self.command}"
