"""How far the clock of the NATS server is ahead of this host's, from when messages were received there and
here."""

from __future__ import annotations

from typing import Final

REPEATED_SECONDS: Final = 60.0
"""A message that is older than the newest one by less than this was delivered again: streams keep summaries
for half of this time. If it is older by more, the server's clock was set back."""


def is_repeated(at: float, newest: float) -> bool:
    """Returns whether a message that the server received at ``at`` is older than one of ``newest`` (Unix
    times, s), and not because the clock was set back."""
    return 0.0 < newest - at < REPEATED_SECONDS


class ServerClock:
    """The server's clock. Not thread-safe."""

    def __init__(self) -> None:
        self._newest = float("-inf")
        self._ahead = 0.0
        self._best = float("-inf")
        """The largest difference since `now` was called last."""

    def take(self, at: float, here: float) -> None:
        """Takes a message that the server received at ``at`` by its clock, and this host at ``here`` (Unix
        times, s). One that is delivered again says nothing: it was on its way for as long as one likes."""
        if at == self._newest or is_repeated(at, self._newest):
            return
        self._newest = at
        # A message arrives after the server has received it: the largest difference is the best.
        self._best = max(self._best, at - here)

    def now(self, here: float) -> float:
        """Returns the Unix time on the server's clock while this host's shows ``here``."""
        if self._best > float("-inf"):
            self._ahead, self._best = self._best, float("-inf")
        return here + self._ahead
