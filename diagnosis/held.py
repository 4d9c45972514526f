"""Holds the use from which fixes compute limits while the use varies, so that a command does not change while
somebody types it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

CLEARLY: Final = 1.3
"""A held use is replaced if the present one is smaller by at least this factor for ``FALLS_SECONDS``."""
FALLS_SECONDS: Final = 10.0
"""While a culprit ends, its use falls: a limit computed from the rest would be too low for its next start."""
FAR_ABOVE: Final = 3.0
"""A held use is replaced by a larger one only if that is larger by at least this factor: a limit that rises
with the load of the culprit would end up at a load that already did harm."""
SETTLES_SECONDS: Final = 5.0
"""Seconds after its first report in which a use may rise: at first, much of the window is of the time before
the culprit began."""
KEPT_SECONDS: Final = 30.0
"""A use that was not reported for longer than this is forgotten."""


class _HeldUse(NamedTuple):
    use: float
    since: float
    """When it was first reported (Unix seconds)."""
    at: float
    """When it was last reported."""
    lower: float | None = None
    """Since when the reported use is clearly lower; None: it is not."""


class HeldUses:
    """The uses that fixes of the latest windows of one host were computed from."""

    def __init__(self) -> None:
        self._held: dict[Hashable, _HeldUse] = {}

    def hold(self, what: Hashable, use: float, now: float) -> float:
        """Returns the use to compute from: the one that was held for ``what`` before, unless ``use``, the
        present one, differs clearly. ``now`` is the end of the window (Unix seconds)."""
        before = self._held.get(what)
        if before is None or not 0.0 <= now - before.at <= KEPT_SECONDS:
            before = _HeldUse(use, now, now)
        lower = before.lower if before.lower is not None else now
        falls = use <= before.use / CLEARLY
        rises = use >= before.use * (CLEARLY if now - before.since <= SETTLES_SECONDS else FAR_ABOVE)
        if rises or (falls and now - lower >= FALLS_SECONDS):
            self._held[what] = _HeldUse(use, before.since, now)
        else:
            self._held[what] = before._replace(at=now, lower=lower if falls else None)
        return self._held[what].use

    def forget(self, now: float) -> None:
        """Forgets the uses that were last reported more than ``KEPT_SECONDS`` before ``now``."""
        for what, held in list(self._held.items()):
            if not 0.0 <= now - held.at <= KEPT_SECONDS:
                del self._held[what]
