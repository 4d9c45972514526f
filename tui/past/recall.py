"""Steps, jumps and playing in the past, and the time line. Pure functions of the times of windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor, log10

import numpy as np

from stalltop.model.chain import SEVERITIES, Severity
from stalltop.model.window_times import WindowTimes
from stalltop.recordings.past.kept import HOLE_SECONDS, NEAR
from stalltop.tui.problems.chains import MARK, ROLE
from stalltop.widgets.timeline import Timespan

_DAY = 86_400.0
SPANS = (300.0, 900.0, 3_600.0, 21_600.0, _DAY, 3 * _DAY, 7 * _DAY, 30 * _DAY)
"""Lengths of the time line in seconds."""
_SHORT = (10.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0)
"""Lengths of the time line in seconds, for recordings that fit into the last of them. The label at
the end of the time line shows each of these lengths without rounding."""
_SAME = 1e-6
"""Tolerance in seconds for rounding errors of Unix times."""
_INSIDE = 0.98
"""A moment is visible on the time line if its distance from the right end is at most this share of the line's
length. The rest is about one cell on a terminal of 80 columns."""
_SURE = 0.97
"""The share of the line's length that a whole recording takes at most. The rest is about one cell on a
terminal of 60 columns."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The window that the screen wants to show."""

    at: float | None
    """Unix time of the window's end; None: now."""
    length: float | None
    """Length of the window in seconds; None: since the start."""


# ---- steps


def stepped(past: WindowTimes, at: float, steps: int) -> float | None:
    """Return the end of the window ``steps`` after the one that ends at ``at``, or before it if negative.

    Returns None if there are fewer windows.
    """
    before = int(np.searchsorted(past.end, at - NEAR, "right"))
    after = int(np.searchsorted(past.end, at + NEAR, "right"))
    place = before + steps if steps < 0 else after + steps - 1
    return float(past.end[place]) if 0 <= place < len(past.end) else None


def nearest(past: WindowTimes, at: float) -> float:
    """Return the end of the window that ended nearest to ``at``."""
    return float(past.end[int(np.argmin(np.abs(past.end - at)))])


def named(past: WindowTimes, at: float) -> float:
    """Return the end of the window that a user means by ``at``.

    If ``at`` is a whole second, this is the window whose end the screen shows as that second, because clocks
    show no fractions. Otherwise it is the window that ended nearest to ``at``.
    """
    if at == floor(at):
        found = int(np.searchsorted(past.end, at - _SAME))
        if found < len(past.end) and past.end[found] < at + 1.0:
            return float(past.end[found])
    return nearest(past, at)


def moved(past: WindowTimes, at: float, seconds: float) -> float | None:
    """Return the end of the window about ``seconds`` after ``at``, or before it if negative. This is always
    another window than the one at ``at``.

    A jump back beyond the oldest window ends at the oldest. Returns None if no older window is kept, or if
    the newest window ended before that time.
    """
    one = stepped(past, at, 1 if seconds > 0 else -1)
    if one is None:
        return None
    target = at + seconds
    if seconds > 0 and target > past.end[-1] + NEAR:
        return None
    found = nearest(past, target)
    return max(found, one) if seconds > 0 else min(found, one)


def next_fault(past: WindowTimes, at: float, step: int) -> tuple[float, Severity] | None:
    """Return the end of the next (1) or previous (-1) window in which a problem began, and the severity.

    Returns None if there is no such window.
    """
    began = np.flatnonzero(past.began < len(SEVERITIES))
    found = began[past.end[began] > at + NEAR][:1] if step > 0 else began[past.end[began] < at - NEAR][-1:]
    return (float(past.end[found[0]]), SEVERITIES[int(past.began[found[0]])]) if len(found) else None


def hole_at(past: WindowTimes, at: float) -> tuple[float, float] | None:
    """Return the start and end of the gap around ``at`` in which no window is kept; None if there is no
    gap."""
    after = int(np.searchsorted(past.end, at - NEAR))
    if not 0 < after < len(past.end):
        return None
    hole = float(past.end[after - 1]), float(past.start[after])
    return hole if hole[1] - hole[0] > HOLE_SECONDS and hole[0] < at < hole[1] else None


def played(past: WindowTimes, at: float, clock: float) -> tuple[float, float] | None:
    """Play the past up to ``clock``, Unix time. Return the end of the window to show, and the new clock.
    ``at`` is the end of the window that is shown now.

    In a gap without windows the clock moves to the end of the next window. Returns None if ``at`` is the end
    of the last window.
    """
    here = int(np.searchsorted(past.end, at + NEAR, "right")) - 1
    there = int(np.searchsorted(past.end, clock + NEAR, "right")) - 1
    if here + 1 >= len(past.end):
        return None
    if there > here:
        return float(past.end[there]), clock
    if here >= 0 and past.start[here + 1] - past.end[here] <= HOLE_SECONDS:
        return at, clock
    following = float(past.end[here + 1])
    return following, following


# ---- the line of time


def whole_span(past: WindowTimes) -> float:
    """Return a length of the time line, in seconds, that covers all of ``past``. The length is a round
    number, so that it seldom changes when windows are added."""
    seconds = float(past.end[-1] - past.start[0]) / _SURE
    if seconds <= _SHORT[-1]:
        return next(one for one in _SHORT if seconds <= one)
    unit: float = 10.0 ** floor(log10(seconds)) / 10
    return ceil(seconds / unit - 1e-9) * unit


def next_span(past: WindowTimes, span: float | None) -> float | None:
    """Return the longest of ``SPANS`` that is shorter than ``span`` (None: the usual length) and than 80 % of
    a time line that covers all of ``past``. After the shortest one, return None: the usual length."""
    shorter = [one for one in SPANS if one < min(0.8 * whole_span(past), span or np.inf)]
    return shorter[-1] if shorter else None


def timespan(
    past: WindowTimes,
    shown: float | None,
    mark: float | None,
    span: float | None = None,
    *,
    all_of_it: bool = False,
) -> Timespan:
    """Return the time line of ``past`` for the moment ``shown`` and the ``mark``, Unix times (None: now, and
    no mark).

    ``span``: the length of the time line in seconds, around the moment. None: the shortest length that
    reaches from now back to the moment, or with ``all_of_it`` a length that covers all of ``past``.
    """
    newest = float(past.end[-1])
    age = 0.0 if shown is None else newest - shown
    end = newest
    if span is None:
        whole = whole_span(past)
        span = whole if all_of_it else next((one for one in SPANS if age <= one * _INSIDE), whole)
    elif shown is not None and age > span * _INSIDE:
        # The line moves in steps of a quarter of its length. So it stays still while the moment moves within
        # the middle of the line.
        end = min(ceil((shown + span * 0.375) / (span / 4)) * (span / 4), newest)
    first = int(np.searchsorted(past.end, end - span, "right"))
    last = int(np.searchsorted(past.start, end))
    some = replace(
        past,
        start=past.start[first:last],
        end=past.end[first:last],
        lost_ms_per_s=past.lost_ms_per_s[first:last],
        worst=past.worst[first:last],
        began=past.began[first:last],
    )
    return Timespan(
        end=end,
        seconds=span,
        past=some,
        shown=shown,
        mark=mark,
        letters=tuple(MARK[severity] for severity in SEVERITIES),
        roles=tuple(ROLE[severity] for severity in SEVERITIES),
        ago=newest - end,
        file=all_of_it,
    )
