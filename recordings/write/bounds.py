"""Limits for the size and the age of a recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_BYTES: Final = 1 << 30
"""Default limit of the size: 1 GiB. This holds about a week of a host whose windows of one second have 100
rows each."""
DEFAULT_SECONDS: Final = 14 * 86_400.0
"""Default limit of the age: 14 days."""
LEAST_BYTES: Final = 4 << 20
"""Smallest limit of the size that is accepted: 4 MiB. This holds some minutes."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a recording."""

    bytes: int = DEFAULT_BYTES
    """Largest size on disk, with the files that SQLite keeps beside it."""
    seconds: float = DEFAULT_SECONDS
    """Largest age of the oldest window, in seconds."""

    def __post_init__(self) -> None:
        if self.bytes < LEAST_BYTES or self.seconds <= 0:
            raise ValueError(f"a recording needs at least {LEAST_BYTES} bytes and more than 0 seconds")
