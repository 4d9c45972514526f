"""Estimates what calls cost that come after pauses, as a number of calls that follow others closely.

In a pause, other code takes the caches, and the next call waits for memory in the trap and in the programs.
The longer the pause, the longer that takes: measured for pauses of 0.05 to 4 ms, about as the square root of
the pause, but hardly less after 0.05 ms than after 0.25 ms.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stalltop.model.histograms.hdr import COUNTERS, lowest_ns
from stalltop.probes.layout import HOST_GAP
from stalltop.probes.maps.slots import Counts
from stalltop.probes.tracer.calibration import PAUSE_NS

_LEAST_NS: Final = 50_000
"""In a shorter gap between calls, hardly anything is taken from the caches."""
_FEW_NS: Final = 250_000
"""After a shorter pause, a call costs hardly less."""
_MOST_NS: Final = 16_000_000
"""After a longer pause, a call costs no more."""


def _weights() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    ns = lowest_ns(np.arange(COUNTERS))
    return np.where(ns < _LEAST_NS, 0.0, np.sqrt(np.clip(ns, _FEW_NS, _MOST_NS) / PAUSE_NS))


_WEIGHTS: Final = _weights()
"""By counter of a histogram of gaps: cost of the next call, where that after ``PAUSE_NS`` is 1."""


def extra_calls(counts: Counts, pause_calls: float) -> dict[int, float]:
    """Returns, by PID, how many calls would cost as much as calls after pauses cost more than others.
    ``pause_calls`` is that number for one call after a pause of ``PAUSE_NS``."""
    rows = np.flatnonzero([key.operation == HOST_GAP for key in counts.keys])
    gaps = counts.histograms.take(rows)
    extra = np.bincount(
        gaps.row_of_entry(), pause_calls * _WEIGHTS[gaps.index] * gaps.count, minlength=len(rows)
    )
    found: dict[int, float] = {}
    for row, calls in zip(rows.tolist(), extra.tolist(), strict=True):
        tgid = counts.keys[row].tgid
        found[tgid] = found.get(tgid, 0.0) + calls
    return found
