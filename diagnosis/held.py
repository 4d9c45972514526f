"""Holds the limits that fixes propose while the use that they are computed from varies, so that a command
does not change while somebody types it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

CLEARLY: Final = 1.3
"""A held limit is replaced if the new one is smaller by at least this factor."""
FAR_ABOVE: Final = 3.0
"""A held limit is replaced by a larger one only if that is larger by at least this factor: a limit that rises
with the load of the culprit would end up at a load that already did harm."""
KEPT_SECONDS: Final = 30.0
"""A limit that was not proposed for longer than this is forgotten."""


class HeldLimits:
    """The limits that were proposed in the latest windows of one host."""

    def __init__(self) -> None:
        self._held: dict[Hashable, tuple[float, float]] = {}

    def hold(self, what: Hashable, limit: float, now: float) -> float:
        """Returns the limit to propose: the one proposed for ``what`` before, unless ``limit``, the one that
        the present use asks for, differs clearly. ``now`` is the end of the window (Unix seconds)."""
        before, at = self._held.get(what, (limit, now))
        if not (0.0 <= now - at <= KEPT_SECONDS and before / CLEARLY < limit < before * FAR_ABOVE):
            before = limit
        self._held[what] = before, now
        return before

    def forget(self, now: float) -> None:
        """Forgets the limits that were last proposed more than ``KEPT_SECONDS`` before ``now``."""
        for what, (_, at) in list(self._held.items()):
            if not 0.0 <= now - at <= KEPT_SECONDS:
                del self._held[what]
