"""Windows of moments that are over, made of what is kept. Pure functions: they may take seconds, and run
beside the screen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from model.chain import SEVERITIES
from model.history import latest
from model.merging import merge
from model.packing import Packed
from model.sliding import Sliding
from model.window import Window
from tui.chains import MARK, ROLE
from widgets.timeline import Stretch, Timespan

NEAR = 1e-3
"""Ends of windows that differ by less, in seconds, are the same moment."""
SPANS = (300.0, 900.0, 3_600.0, 21_600.0, 86_400.0)
"""Lengths of the line of time, seconds: the shortest that reaches back to what is shown."""
_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which window is asked for."""

    at: float | None
    """Unix time at which it ends; None: now."""
    length: float | None
    """Seconds; None: since the start."""


def never() -> bool:
    """Nothing is in a hurry."""
    return False


def upto(parts: Sequence[Packed], at: float) -> Sequence[Packed]:
    """Those of ``parts`` that end at ``at`` (Unix time) or before, and one that was merged since and holds
    ``at`` in its later half; never none of them."""
    found = bisect_right(parts, at, key=lambda part: part.window.start + part.window.seconds / 2)
    return parts[: max(found, 1)]


def window_at(
    parts: Sequence[Packed], at: float, length: float | None, stale: Callable[[], bool] = never
) -> Window | None:
    """The window of ``length`` seconds (None: of all that is kept) that ended at ``at``.

    None where ``stale`` says meanwhile that it is no longer wanted. Raises ValueError without ``parts``.
    """
    before = upto(parts, at)
    if length is not None:
        return Sliding(length, latest(before, length)).window
    whole = Sliding(None)
    # Some at a time: unpacked, a day would take gigabytes.
    for first in range(0, len(before), _AT_ONCE):
        if stale():
            return None
        whole.take_in(merge([part.unpack() for part in before[first : first + _AT_ONCE]]))
    return whole.window


# ---- steps


def stepped(parts: Sequence[Packed], at: float, steps: int) -> float | None:
    """The end of the window ``steps`` after (or, if negative, before) the one that ends at ``at``; None where
    there are not so many."""
    ends = [part.window.end for part in parts]
    before, after = bisect_right(ends, at - NEAR), bisect_right(ends, at + NEAR)
    place = before + steps if steps < 0 else after + steps - 1
    return ends[place] if 0 <= place < len(ends) else None


def moved(parts: Sequence[Packed], at: float, seconds: float) -> float | None:
    """The end of a window about ``seconds`` after (or, if negative, before) ``at``, at least one step; None
    where nothing is kept of then."""
    one = stepped(parts, at, 1 if seconds > 0 else -1)
    if one is None:
        return None
    target = at + seconds
    if seconds > 0 and target > parts[-1].window.end + NEAR:
        return None
    nearest = min((part.window.end for part in parts), key=lambda end: abs(end - target))
    return max(nearest, one) if seconds > 0 else min(nearest, one)


# ---- the line of time


def timespan(parts: Sequence[Packed], shown: float | None, mark: float | None) -> Timespan:
    """The newest of ``parts`` as a line, back to the moment ``shown`` at least.

    ``shown`` and ``mark`` are Unix times; None: now, and no mark.
    """
    end = parts[-1].window.end
    age = 0.0 if shown is None else end - shown
    seconds = next((span for span in SPANS if age <= span * 0.98), SPANS[-1])
    first = bisect_right(parts, end - seconds, key=lambda part: part.window.end)
    some = parts[first:]

    def column(values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array(values, np.float64)

    return Timespan(
        end=end,
        seconds=seconds,
        past=Stretch(
            start=column([part.window.start for part in some]),
            end=column([part.window.end for part in some]),
            lost_ms_per_s=column([part.peak.lost_ms_per_s for part in some]),
            worst=column([part.peak.worst for part in some]).astype(np.int64),
            began=column([part.peak.began for part in some]).astype(np.int64),
        ),
        shown=shown,
        mark=mark,
        letters=tuple(MARK[severity] for severity in SEVERITIES),
        roles=tuple(ROLE[severity] for severity in SEVERITIES),
    )
