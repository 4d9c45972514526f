"""Decides whether less is drawn because the connection to the terminal is slow, and when to offer that."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from stalltop.tui.keys.actions import key

LOW_SECONDS: Final = 3.0
"""Seconds between two frames while less is drawn."""
LEFT_OUT: Final = 3
"""stalltop offers to draw less when this many frames were skipped within ``WITHIN_SECONDS``."""
WITHIN_SECONDS: Final = 20.0
"""The time, in seconds, in which ``LEFT_OUT`` frames must be skipped. A single delay of the connection is
normal."""


def offer() -> str:
    """Return the message that offers to draw less."""
    return (
        f"the connection to this terminal is slow; {key('less')} draws less (at the start: --low-bandwidth)"
    )


class SlowLine:
    """Counts the frames that were skipped because the connection was too slow."""

    def __init__(self, *, low: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.low = low
        """Whether less is drawn: seldom, without bars and charts, in few colours."""
        self._clock = clock
        self._drawn_at = -LOW_SECONDS
        self._left_out: deque[float] = deque(maxlen=LEFT_OUT)
        self._offered = low

    @property
    def due(self) -> bool:
        """Return whether it is time for another frame."""
        # A frame that is a little early is better than one that waits for the next window.
        return not self.low or self._clock() - self._drawn_at > LOW_SECONDS - 0.25

    def drawn(self) -> None:
        """Note that a frame was drawn."""
        self._drawn_at = self._clock()

    def left_out(self) -> bool:
        """Note that a frame was skipped. Returns True, once, if drawing less should be offered now."""
        now = self._clock()
        self._left_out.append(now)
        offer = (
            not self._offered and len(self._left_out) == LEFT_OUT and now - self._left_out[0] < WITHIN_SECONDS
        )
        self._offered |= offer
        return offer
