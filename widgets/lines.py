"""The base of all widgets here: lines of text of which only what changed is painted again.

Textual repaints a whole widget whenever its content is refreshed; over a slow line that is most of the
traffic. These widgets keep the lines they showed, compare, and mark only the cells that differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from stalltop.widgets.palette import Palette, palette
from stalltop.widgets.strips import changed_span


class Lines(Widget):
    """Shows what ``lines`` gives. Call ``redraw`` when that may have changed."""

    ALLOW_SELECT = False

    def __init__(self, widget_id: str | None = None, *, unicode: bool = True) -> None:
        super().__init__(id=widget_id)
        self.unicode = unicode
        self._shown: list[Strip] = []

    @property
    def pictures(self) -> bool:
        """Whether bars are drawn: they tell less than they take where a line is slow."""
        return bool(getattr(self.app, "pictures", True))

    def lines(self, width: int, height: int, paint: Palette) -> Sequence[Strip]:
        """The lines to show, each ``width`` cells wide; those beyond ``height`` are not seen."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Compute the lines again and repaint the cells that differ."""
        width, height = self.size
        if not (self.is_mounted and width and height):
            return
        paint = palette(self.app)
        new = list(self.lines(width, height, paint))[:height]
        new.extend([Strip.blank(width, paint.ground)] * (height - len(new)))
        new = [strip.apply_style(paint.ground) for strip in new]
        old, self._shown = self._shown, new
        if len(old) != len(new) or not old or old[0].cell_length != width:
            self.refresh()
            return
        regions = []
        for y, (one, other) in enumerate(zip(old, new, strict=True)):
            span = changed_span(one, other)
            if span is not None:
                regions.append(Region(span[0], y, span[1] - span[0], 1))
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """The line at ``y``, as last computed."""
        if y < len(self._shown):
            return self._shown[y]
        return Strip.blank(self.size.width, palette(self.app).ground)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the new size."""
        self._shown = []
        self.redraw()

    def on_mount(self) -> None:
        """Paint again whenever the theme changes."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self.repaint())

    def repaint(self) -> None:
        """Compute and paint every line again."""
        self._shown = []
        self.redraw()
