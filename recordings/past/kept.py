"""What is kept of the past, as the screen looks at it: when each window was and how bad, and the sum of any
stretch of them. Live that is in memory (here); of an opened recording it is in the file (``in_file``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from stalltop.model.merge.history import latest
from stalltop.model.merge.merging import merge
from stalltop.model.merge.packing import Packed
from stalltop.model.merge.sliding import Sliding
from stalltop.model.window import Window
from stalltop.model.window_times import WindowTimes

NEAR = 1e-3
"""Ends of windows that differ by less, in seconds, are the same moment."""
HOLE_SECONDS = 5.0
"""Longest time between two windows that still follow each other. After more nothing was counted for a while,
and no window is made of both sides."""
_AT_ONCE = 32

Stale = Callable[[], bool]
"""Says whether what is being made is no longer wanted."""


def never() -> bool:
    """Nothing is in a hurry."""
    return False


class Past(Protocol):
    """What is kept of the past. It does not change: what is kept a second later is another one."""

    @property
    def end(self) -> float:
        """Unix time in seconds at which its newest window ended."""
        ...

    @property
    def stretch(self) -> WindowTimes:
        """Every window's times, and how bad it was; oldest first, at least one."""
        ...

    @property
    def parts(self) -> Sequence[Packed]:
        """The windows up to the newest that can be had without waiting, oldest first."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What is wrong with it, one line each, as far as is known now."""
        ...

    def window_at(self, at: float, length: float | None, stale: Stale = never) -> Window | None:
        """The window of ``length`` seconds (None: of all that is kept) that ended at ``at``, Unix time.

        Takes up to seconds. None where ``stale`` says meanwhile that it is no longer wanted.
        """
        ...

    def at_hand(self, at: float) -> Sequence[Packed] | None:
        """Those windows that lead to the one that ended at ``at`` that need no wait; None where ``parts`` has
        all of them."""
        ...

    def before(self, at: float, stale: Stale = never) -> Sequence[Packed] | None:
        """The windows that lead to the one that ended at ``at``, where some have to be fetched first.

        Takes up to seconds. None where ``parts`` has them, or ``stale`` says that they are not wanted."""
        ...


class InMemory:
    """A past that is held in memory."""

    notes: tuple[str, ...] = ()

    def __init__(self, parts: Sequence[Packed]) -> None:
        """``parts``: oldest first, at least one."""
        self.parts = parts

    @property
    def end(self) -> float:
        """When the newest one ended."""
        return self.parts[-1].window.end

    @cached_property
    def stretch(self) -> WindowTimes:
        """Worked out where it is asked for: live that is not every second."""
        windows, peaks = [part.window for part in self.parts], [part.peak for part in self.parts]
        return WindowTimes(
            start=np.array([window.start for window in windows], np.float64),
            end=np.array([window.end for window in windows], np.float64),
            lost_ms_per_s=np.array([peak.lost_ms_per_s for peak in peaks], np.float64),
            worst=np.array([peak.worst for peak in peaks], np.int64),
            began=np.array([peak.began for peak in peaks], np.int64),
        )

    def window_at(self, at: float, length: float | None, stale: Stale = never) -> Window | None:
        """See ``Past``."""
        return window_at(self.parts, at, length, stale)

    def at_hand(self, at: float) -> None:
        """``parts`` has them all."""

    def before(self, at: float, stale: Stale = never) -> None:
        """``parts`` has them all."""


def upto(parts: Sequence[Packed], at: float) -> Sequence[Packed]:
    """Those of ``parts`` that end at ``at`` (Unix time) or before, and one that was merged since and holds
    ``at`` in its later half; never none of them."""
    found = bisect_right(parts, at, key=lambda part: part.window.start + part.window.seconds / 2)
    return parts[: max(found, 1)]


def unbroken(parts: Sequence[Packed]) -> Sequence[Packed]:
    """The last of ``parts``, as many as follow each other without a hole."""
    for at in range(len(parts) - 1, 0, -1):
        if parts[at].window.start - parts[at - 1].window.end > HOLE_SECONDS:
            return parts[at:]
    return parts


def window_at(
    parts: Sequence[Packed], at: float, length: float | None, stale: Stale = never
) -> Window | None:
    """The window of ``length`` seconds (None: of all ``parts``, oldest first) that ended at ``at``.

    None where ``stale`` says meanwhile that it is no longer wanted. Raises ValueError without ``parts``.
    """
    before = upto(parts, at)
    if length is not None:
        return Sliding(length, unbroken(latest(before, length))).window
    whole = Sliding(None)
    # Some at a time: unpacked, a day would take gigabytes.
    for first in range(0, len(before), _AT_ONCE):
        if stale():
            return None
        whole.take_in(merge([part.unpack() for part in before[first : first + _AT_ONCE]]))
    return whole.window
