"""Whether less is drawn, because the line to the terminal is slow, and when that is offered."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from stalltop.tui.keys import key

LOW_SECONDS: Final = 3.0
"""Between two pictures while less is drawn."""
LEFT_OUT: Final = 3
"""Less is offered once so many pictures were left out …"""
WITHIN_SECONDS: Final = 20.0
"""… within so many seconds: one hiccup of a line is none of our business."""


def offer() -> str:
    """What is said where less is offered."""
    return f"the line to this terminal is slow; {key('less')} draws less (at the start: --low-bandwidth)"


class SlowLine:
    """Counts the pictures that a line had no room for."""

    def __init__(self, *, low: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.low = low
        """Less is drawn: seldom, without bars, in few colours."""
        self._clock = clock
        self._drawn_at = -LOW_SECONDS
        self._left_out: deque[float] = deque(maxlen=LEFT_OUT)
        self._offered = low

    @property
    def due(self) -> bool:
        """Whether it is time for another picture."""
        # A little early is better than a whole look too late.
        return not self.low or self._clock() - self._drawn_at > LOW_SECONDS - 0.25

    def drawn(self) -> None:
        """A picture was drawn."""
        self._drawn_at = self._clock()

    def left_out(self) -> bool:
        """There was no room for a picture; whether to offer now to draw less, which is done once."""
        now = self._clock()
        self._left_out.append(now)
        offer = (
            not self._offered and len(self._left_out) == LEFT_OUT and now - self._left_out[0] < WITHIN_SECONDS
        )
        self._offered |= offer
        return offer
