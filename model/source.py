"""Where windows come from: the tracer of this host, simulated tenants, or a saved file."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from stalltop.model.window import Window


@runtime_checkable
class Source(Protocol):
    """Gives windows, one after the other. Used from one thread at a time, never the screen's."""

    def read(self) -> Window:
        """What happened since the previous read (the first one: since the source began)."""
        ...

    def close(self) -> None:
        """Stop, leaving nothing behind. Returns within a second; may be called twice."""
        ...
