"""Decides how brightly a duration is drawn, and marks figures that are not reliable."""

from __future__ import annotations

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
