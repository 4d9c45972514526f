"""A clock that only a test moves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ManualClock:
    """Returns ``now``, in seconds, whenever it is called."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now
