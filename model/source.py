"""The interface of everything that yields windows: the tracer, simulated tenants, and saved files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from stalltop.model.window import Window  # numpy, which the first picture need not wait for


@runtime_checkable
class Source(Protocol):
    """Yields windows. Used by one thread at a time, and never by the thread that draws the screen."""

    def read(self) -> Window:
        """Returns a window of what happened since the previous read, or, in the first read, since the source
        was created."""
        ...

    def close(self) -> None:
        """Stops and releases everything. Returns within a second; may be called twice."""
        ...
