"""The past that the screen shows: times and severity of all windows, and the sum of the windows of any
period.

On the live screen, the past is in memory (this module). The past of an opened recording is in its file
(``in_file``).
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
"""Times that differ by less than this, in seconds, count as the same moment."""
HOLE_SECONDS = 5.0
"""Longest pause, in seconds, between two windows that count as consecutive. A window of a chosen length never
spans a longer pause; the sum of all windows up to a time does."""
_AT_ONCE = 32

Stale = Callable[[], bool]
"""A function that returns whether the caller no longer wants the result."""


def never() -> bool:
    """Return False: the caller always wants the result."""
    return False


class Past(Protocol):
    """All windows up to one moment. A ``Past`` never changes. When a window is added, a new ``Past`` replaces
    it."""

    @property
    def end(self) -> float:
        """End of the newest window, Unix seconds."""
        ...

    @property
    def stretch(self) -> WindowTimes:
        """Times and severity of every window, oldest first; at least one."""
        ...

    @property
    def parts(self) -> Sequence[Packed]:
        """The windows that are in memory, the newest last."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """The warnings that are known now, one line each."""
        ...

    def window_at(self, at: float, length: float | None, stale: Stale = never) -> Window | None:
        """Return the window of ``length`` seconds that ended at ``at`` (Unix seconds). If ``length`` is None,
        return the sum of all windows up to ``at``.

        This takes up to seconds. Returns None if ``stale`` returns True in the meantime.
        """
        ...

    def at_hand(self, at: float) -> Sequence[Packed] | None:
        """Return those windows in memory that are not after the window that ended at ``at``. Return None if
        ``parts`` has all windows."""
        ...

    def before(self, at: float, stale: Stale = never) -> Sequence[Packed] | None:
        """Return the windows up to the one that ended at ``at``, as many as a page draws. Reads those that
        are not in memory.

        This takes up to seconds. Returns None if ``parts`` has all windows, or if ``stale`` returns True in
        the meantime.
        """
        ...


class InMemory:
    """A past whose windows are all in memory."""

    notes: tuple[str, ...] = ()

    def __init__(self, parts: Sequence[Packed]) -> None:
        """``parts`` are the windows, oldest first; there must be at least one."""
        self.parts = parts

    @property
    def end(self) -> float:
        """End of the newest window, Unix seconds."""
        return self.parts[-1].window.end

    @cached_property
    def stretch(self) -> WindowTimes:
        """Times and severity of every window (``Past.stretch``). Computed at the first access, because it is
        never read from most objects."""
        windows, peaks = [part.window for part in self.parts], [part.peak for part in self.parts]
        return WindowTimes(
            start=np.array([window.start for window in windows], np.float64),
            end=np.array([window.end for window in windows], np.float64),
            lost_ms_per_s=np.array([peak.lost_ms_per_s for peak in peaks], np.float64),
            worst=np.array([peak.worst for peak in peaks], np.int64),
            began=np.array([peak.began for peak in peaks], np.int64),
        )

    def window_at(self, at: float, length: float | None, stale: Stale = never) -> Window | None:
        """Return the window of a time (``Past.window_at``)."""
        return window_at(self.parts, at, length, stale)

    def at_hand(self, at: float) -> None:
        """Return None: ``parts`` has all windows."""

    def before(self, at: float, stale: Stale = never) -> None:
        """Return None: ``parts`` has all windows."""


def upto(parts: Sequence[Packed], at: float) -> Sequence[Packed]:
    """Return those of ``parts`` whose middle is at or before ``at`` (Unix seconds), but at least the first
    one. The last of these windows may end after ``at`` if it is a merged window: then ``at`` lies in its
    second half."""
    found = bisect_right(parts, at, key=lambda part: part.window.start + part.window.seconds / 2)
    return parts[: max(found, 1)]


def unbroken(parts: Sequence[Packed]) -> Sequence[Packed]:
    """Return as many of the last windows of ``parts`` as follow each other without a pause longer than
    ``HOLE_SECONDS``."""
    for at in range(len(parts) - 1, 0, -1):
        if parts[at].window.start - parts[at - 1].window.end > HOLE_SECONDS:
            return parts[at:]
    return parts


def window_at(
    parts: Sequence[Packed], at: float, length: float | None, stale: Stale = never
) -> Window | None:
    """Return the window of ``length`` seconds that ended at ``at`` (Unix seconds). If ``length`` is None,
    return the sum of all ``parts`` up to ``at``. ``parts`` are oldest first.

    Returns None if ``stale`` returns True in the meantime. Raises ValueError if there are no ``parts``.
    """
    before = upto(parts, at)
    if length is not None:
        return Sliding(length, unbroken(latest(before, length))).window
    whole = Sliding(None)
    # Only a few windows are unpacked at a time: all windows of a day together would take gigabytes.
    for first in range(0, len(before), _AT_ONCE):
        if stale():
            return None
        whole.take_in(merge([part.unpack() for part in before[first : first + _AT_ONCE]]))
    return whole.window
