"""When each window of the past was, and how bad: the columns that a line of time is drawn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class WindowTimes:
    """Windows, oldest first; all arrays have shape (n,)."""

    start: NDArray[np.float64]
    """Unix time, seconds."""
    end: NDArray[np.float64]
    lost_ms_per_s: NDArray[np.float64]
    """NaN where it cannot be read."""
    worst: NDArray[np.int64]
    """Index of the worst severity that was open; beyond the last one where none was."""
    began: NDArray[np.int64]
    """The same of what began within."""
