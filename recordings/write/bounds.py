"""How large and how old a recording may become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_BYTES: Final = 1 << 30
"""Size bound where none is given: 1 GiB, in which a week of 100 rows a second fits."""
DEFAULT_SECONDS: Final = 14 * 86_400.0
"""Age bound where none is given: 14 days."""
LEAST_BYTES: Final = 4 << 20
"""The smallest size bound: one that holds some minutes."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a recording may take."""

    bytes: int = DEFAULT_BYTES
    """On the disk, with the files that SQLite keeps beside it."""
    seconds: float = DEFAULT_SECONDS
    """How old its oldest window may be."""

    def __post_init__(self) -> None:
        if self.bytes < LEAST_BYTES or self.seconds <= 0:
            raise ValueError(f"at least {LEAST_BYTES} bytes and more than 0 seconds are needed")
