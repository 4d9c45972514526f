"""The base class of all widgets here. It shows lines of text and repaints only the cells that changed.

Textual repaints a whole widget whenever its content changes, which is most of the traffic over a slow
connection. A widget here keeps the lines that it showed, compares them with the new ones, and marks only the
cells that differ for repainting.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.widgets.drawing.frame import NO_FRAME, FrameEdge, PanelFrame, framed
from stalltop.widgets.drawing.palette import Palette, palette
from stalltop.widgets.drawing.strips import changed_span


class Lines(Widget):
    """Shows what its method ``lines`` returns. Call ``redraw`` after a change."""

    ALLOW_SELECT = False

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(id=widget_id)
        self._shown: list[Strip] = []
        self._frame = NO_FRAME

    @property
    def frame(self) -> PanelFrame:
        """Return the frame around the lines."""
        return self._frame

    @frame.setter
    def frame(self, frame: PanelFrame) -> None:
        if frame != self._frame:
            self._frame = frame
            self.repaint()

    def edges(self, paint: Palette) -> tuple[FrameEdge, FrameEdge]:
        """Return the texts on the top and on the bottom edge of the frame."""
        return FrameEdge(), FrameEdge()

    @property
    def glyphs(self) -> Glyphs:
        """Return the glyphs of the app; ``UNICODE`` if the app has none."""
        glyphs: Glyphs = getattr(self.app, "glyphs", UNICODE)
        return glyphs

    @property
    def pictures(self) -> bool:
        """Return whether bars and charts are drawn. They are left out on a slow connection, because they take
        many bytes."""
        return bool(getattr(self.app, "pictures", True))

    def lines(self, width: int, height: int, paint: Palette) -> Sequence[Strip]:
        """Return the lines to show inside the frame, each ``width`` cells wide. Lines beyond ``height`` are
        not shown."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Compute the lines again and repaint the cells that differ."""
        width, height = self.size
        if not (self.is_mounted and width and height):
            return
        paint = palette(self.app)
        frame = self._frame
        inside, high = width - frame.columns, height - frame.lines
        if inside <= 0 or high < 0:
            return
        new = list(self.lines(inside, high, paint))[:high] if high else []
        new.extend([Strip.blank(inside, paint.ground)] * (high - len(new)))
        if frame.lines or frame.sides:
            style = paint.label if self.has_focus else paint.track
            new = framed(new, frame, self.edges(paint), width, style, self.glyphs)
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
        """Return the line at ``y`` as last computed."""
        if y < len(self._shown):
            return self._shown[y]
        return Strip.blank(self.size.width, palette(self.app).ground)

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size."""
        self._shown = []
        self.redraw()

    def on_mount(self) -> None:
        """Repaint whenever the theme changes."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self.repaint())

    def repaint(self) -> None:
        """Compute and paint every line again."""
        self._shown = []
        self.redraw()
