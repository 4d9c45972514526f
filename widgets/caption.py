"""The caption of a demonstration: two lines below the header."""

from __future__ import annotations

from collections.abc import Sequence

from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Line, line_of, printable


class CaptionLines(Lines):
    """Shows the lines of a caption: the first one stands out."""

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self._lines: tuple[str, ...] = ()

    def show(self, lines: Sequence[str]) -> None:
        """Show ``lines``."""
        self._lines = tuple(lines)
        self.redraw()

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Draw the caption."""
        marks = (f"{self.glyphs.cursor} ", "  ")
        styles = (paint.accent, paint.label)
        return [
            line_of([(mark, paint.accent), (printable(text), style)], width)
            for mark, text, style in zip(marks, self._lines, styles, strict=False)
        ]
