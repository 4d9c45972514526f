"""Holds the limits that fixes propose while the use that they are computed from varies, so that a command
does not change while somebody types it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

CLEARLY: Final = 1.3
"""A held limit is replaced if the new one is smaller by at least this factor."""
FAR_ABOVE: Final = 3.0
"""A held limit is replaced by a larger one only if that is larger by at least this factor: a limit that rises
with the load of the culprit would end up at a load that already did harm."""
SETTLES_SECONDS: Final = 5.0
"""Seconds after its first proposal in which a limit may rise: at first, much of the window is of the time
before the culprit began."""
KEPT_SECONDS: Final = 30.0
"""A limit that was not proposed for longer than this is forgotten."""


class _Proposed(NamedTuple):
    limit: float
    since: float
    """When a limit was first proposed (Unix seconds)."""
    at: float
    """When it was last proposed."""


class HeldLimits:
    """The limits that were proposed in the latest windows of one host."""

    def __init__(self) -> None:
        self._held: dict[Hashable, _Proposed] = {}

    def hold(self, what: Hashable, limit: float, now: float) -> float:
        """Returns the limit to propose: the one proposed for ``what`` before, unless ``limit``, the one that
        the present use asks for, differs clearly. ``now`` is the end of the window (Unix seconds)."""
        before = self._held.get(what)
        if before is None or not 0.0 <= now - before.at <= KEPT_SECONDS:
            before = _Proposed(limit, now, now)
        rises = CLEARLY if now - before.since <= SETTLES_SECONDS else FAR_ABOVE
        stays = before.limit / CLEARLY < limit < before.limit * rises
        self._held[what] = before._replace(limit=before.limit if stays else limit, at=now)
        return self._held[what].limit

    def forget(self, now: float) -> None:
        """Forgets the limits that were last proposed more than ``KEPT_SECONDS`` before ``now``."""
        for what, held in list(self._held.items()):
            if not 0.0 <= now - held.at <= KEPT_SECONDS:
                del self._held[what]
