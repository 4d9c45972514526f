"""Draws a percentage as a bar."""

from __future__ import annotations

from rich.style import Style

from stalltop.model.text.glyphs import Glyphs
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Part


def bar(percent: float | None, width: int, paint: Palette, *, glyphs: Glyphs, style: Style) -> list[Part]:
    """Return a bar of ``width`` cells for ``percent`` (0 to 100). None, an unknown value, gives an empty bar.

    A value above 0 fills at least one cell.
    """
    share = min(max(percent or 0.0, 0.0), 100.0) / 100
    filled = round(share * width)
    if share > 0 and not filled and width:
        filled = 1
    return [
        (glyphs.bar * filled, style),
        (glyphs.track * (width - filled), paint.track),
    ]
