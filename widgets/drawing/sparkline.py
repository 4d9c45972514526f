"""Draws a row of figures as a sparkline: one line of text with one character for each figure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stalltop.model.text.glyphs import UNICODE, Glyphs


def sparkline(
    values: Sequence[float | None], *, low: float = 0.0, high: float | None = None, glyphs: Glyphs = UNICODE
) -> str:
    """Return one character for each of ``values``, on a scale from ``low`` to ``high`` (None: the largest).

    An unknown value (None or NaN) is a blank, which differs from the character for 0. Values outside the
    scale are drawn at its ends.
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    top = max(known, default=low) if high is None else high
    scale = len(glyphs.levels) / (top - low) if top > low else 0.0

    def character(value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return " "
        return glyphs.levels[min(max(int((value - low) * scale), 0), len(glyphs.levels) - 1)]

    return "".join(character(value) for value in values)
