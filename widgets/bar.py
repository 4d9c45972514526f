"""A share of a whole as a bar."""

from __future__ import annotations

from rich.style import Style

from stalltop.widgets.palette import Palette
from stalltop.widgets.strips import Part


def bar(
    percent: float | None, width: int, paint: Palette, *, unicode: bool, style: Style | None = None
) -> list[Part]:
    """``percent`` (0 to 100) as a bar of ``width`` cells; None, which means not known, is an empty track."""
    full, empty = ("━", "─") if unicode else ("#", ".")
    share = min(max(percent or 0.0, 0.0), 100.0) / 100
    filled = round(share * width)
    if share > 0 and not filled and width:
        filled = 1
    return [(full * filled, style or paint.level(percent)), (empty * (width - filled), paint.track)]
