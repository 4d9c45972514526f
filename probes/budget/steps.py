"""Names the steps that make probes cheaper, in the order in which they are taken."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

SAMPLED_SECONDS: Final = 1.0
"""For this long in each ``CYCLE_SECONDS``, calls of a function with ``BudgetStep.SAMPLED`` are counted."""
CYCLE_SECONDS: Final = 10.0


class BudgetStep(IntEnum):
    """How much of a function's calls is not traced. Later steps save more."""

    NONE = 0
    """All its calls are counted and timed."""
    TWIN = 1
    """Its probes are removed, because its calls are made inside calls of other functions, which are
    traced."""
    TIMED = 2
    """All its calls are counted, and one in ``TIMED_IN`` is timed: a session takes the place of its entry and
    return probes (``bpf/timed.h``)."""
    SAMPLED = 3
    """Its probes are in place for ``SAMPLED_SECONDS`` of each ``CYCLE_SECONDS``."""
    STOPPED = 4
    """Its probes are removed, because even sampling would cost too much."""
