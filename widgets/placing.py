"""A layout for Textual that places each widget of a container in a given region."""

from __future__ import annotations

from collections.abc import Mapping

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget


class RegionLayout(Layout):
    """Places the children of a container in ``regions``, by their ids. Children without a region are not
    shown; the container hides them."""

    name = "places"

    def __init__(self) -> None:
        self.regions: Mapping[str, Region] = {}

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        """Return the placements of ``children``."""
        parent.pre_layout(self)
        return [
            WidgetPlacement(self.regions[child.id], NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child.id is not None and child.id in self.regions
        ]
