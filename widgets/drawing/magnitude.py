"""Decides how brightly a duration is drawn, and marks figures that are not reliable."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final, Literal

Brightness = Literal["dim", "text", "bright"]
"""Roles of the palette."""

UNSURE: Final = "~"
"""The sign before a figure that few calls support or that chance can explain."""
_FROM_MS: Final = 999.5e3
"""The shortest duration, in ns, that ``figures.duration`` writes in milliseconds (rounded to 1.00 ms)."""
_FROM_S: Final = 999.5e6
"""The shortest duration, in ns, that ``figures.duration`` writes in seconds (rounded to 1.00 s)."""


def brightness(ns: float | None) -> Brightness:
    """Return the role of a duration, or of time lost per second: ``dim`` below a millisecond and for an
    unknown one (None or NaN), ``text`` in milliseconds, ``bright`` from a second on.

    All figures of a column have the same width, whatever their unit is. So brightness shows which are long.
    """
    if ns is None or not ns >= _FROM_MS:
        return "dim"
    return "bright" if ns >= _FROM_S else "text"


_LAST_DECIMAL: Final = re.compile(r"(\d+)\.(\d+)")


def coarser(text: str) -> str:
    """Return ``text``, a figure with its unit, rounded by one decimal: ``88ms`` for ``87.6ms``. A figure
    without decimals stays as it is."""
    found = _LAST_DECIMAL.match(text)
    if found is None:
        return text
    return f"{Decimal(found[0]):.{len(found[2]) - 1}f}{text[found.end() :]}"
