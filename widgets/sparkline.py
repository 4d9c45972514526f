"""A row of figures as one line of text, one character for each. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

LEVELS = "▁▂▃▄▅▆▇█"
ASCII_LEVELS = "_.:-=+*#"
"""The same, the lowest first, where only ASCII can be shown."""


def sparkline(
    values: Sequence[float | None], *, low: float = 0.0, high: float | None = None, unicode: bool = True
) -> str:
    """``values`` between ``low`` and ``high`` (None: the largest of them), one character each.

    A value that is not known (None, NaN) is a blank: a gap is no zero. Values outside are drawn at the edge.
    """
    levels = LEVELS if unicode else ASCII_LEVELS
    known = [value for value in values if value is not None and math.isfinite(value)]
    top = max(known, default=low) if high is None else high
    scale = len(levels) / (top - low) if top > low else 0.0

    def character(value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return " "
        return levels[min(max(int((value - low) * scale), 0), len(levels) - 1)]

    return "".join(character(value) for value in values)
