"""Time, loss and worst severity of past windows: the columns that the timeline is drawn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class WindowTimes:
    """Columns of n windows, oldest first; all arrays have shape (n,)."""

    start: NDArray[np.float64]
    """Unix time in seconds."""
    end: NDArray[np.float64]
    lost_ms_per_s: NDArray[np.float64]
    """Time lost to open problems, ms per second; NaN if the window cannot be read."""
    worst: NDArray[np.int64]
    """Index in ``SEVERITIES`` of the worst open problem; len(SEVERITIES) if no problem was open."""
    began: NDArray[np.int64]
    """Index in ``SEVERITIES`` of the worst problem that began within the window; len(SEVERITIES) if no
    problem began."""
