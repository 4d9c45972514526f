"""The base class of all widgets here. It shows lines of text and repaints only the cells that changed.

Textual repaints a whole widget whenever its content changes, which is most of the traffic over a slow
connection. A widget here keeps the lines that it showed, compares them with the new ones, and marks only the
cells that differ for repainting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.widgets.drawing.frame import NO_FRAME, FrameEdge, PanelFrame, edge_lines, framed
from stalltop.widgets.drawing.palette import Palette, palette
from stalltop.widgets.drawing.strips import PLAIN, Line, changed_span


class Lines(Widget):
    """Shows what its method ``lines`` returns. Call ``redraw`` after a change."""

    ALLOW_SELECT = False

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(id=widget_id)
        self._shown: list[Line] = []
        """The lines as last computed, frame included."""
        self._drawn_for: tuple[Size, PanelFrame] | None = None
        """The size and the frame for which ``_shown`` was computed."""
        self._ground = PLAIN
        """The background of the lines."""
        self._strips: dict[int, Strip] = {}
        """Those lines that Textual has asked for."""
        self._frame = NO_FRAME
        self._edges: tuple[Any, tuple[Line | None, Line | None]] = (None, (None, None))
        """The top and the bottom of the frame, and all that they depend on."""

    @property
    def frame(self) -> PanelFrame:
        """Return the frame around the lines."""
        return self._frame

    @frame.setter
    def frame(self, frame: PanelFrame) -> None:
        if frame != self._frame:
            self._frame = frame
            self.refresh()  # The size mostly changes, too: the lines are computed when Textual asks for them.

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

    def lines(self, width: int, height: int, paint: Palette) -> Sequence[Line]:
        """Return the lines to show inside the frame, each ``width`` cells wide. Lines beyond ``height`` are
        not shown."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Compute the lines again and repaint the cells that differ."""
        before, old, ground = self._drawn_for, self._shown, self._ground
        if not self._compute():
            return
        new = self._shown
        if before != self._drawn_for or len(old) != len(new) or ground != self._ground:
            self._strips = {}
            self.refresh()
            return
        regions = []
        for y, line in enumerate(new):
            if line != old[y] and (span := changed_span(old[y], line)) is not None:
                self._strips.pop(y, None)
                regions.append(Region(span[0], y, span[1] - span[0], 1))
        if regions:
            repaint = getattr(self.screen, "repaint", None)
            if repaint is None:
                self.refresh(*regions)
            else:
                repaint(self, regions)

    def _compute(self) -> bool:
        """Compute the lines for the present size and frame; return False if there is no room for any."""
        width, height = self.size
        frame = self._frame
        inside, high = width - frame.columns, height - frame.lines
        if not (self.is_mounted and height) or inside <= 0 or high < 0:
            return False
        paint = palette(self.app)
        inner = list(self.lines(inside, high, paint))[:high] if high else []
        inner.extend([[(" " * inside, PLAIN)]] * (high - len(inner)))
        self._shown = self._framed(inner, width, paint) if frame.lines or frame.sides else inner
        self._drawn_for, self._ground = (self.size, frame), paint.ground
        return True

    def _keep_up(self) -> None:
        """Compute the lines again if the size or the frame has changed since. Textual paints a widget in its
        new size before it tells the widget."""
        if self._drawn_for is not None and self._drawn_for != (self.size, self._frame) and self._compute():
            self._strips = {}

    def _framed(self, inner: list[Line], width: int, paint: Palette) -> list[Line]:
        frame, glyphs = self._frame, self.glyphs
        style = paint.label if self.has_focus else paint.track
        edges = self.edges(paint) if frame.lines else (FrameEdge(), FrameEdge())
        made_of = frame, edges, width, style, glyphs
        if self._edges[0] != made_of:
            self._edges = made_of, edge_lines(*made_of)
        return framed(inner, frame, self._edges[1], style, glyphs.side)

    @property
    def opaque(self) -> bool:
        """Return whether the lines cover the whole widget, with a background of their own."""
        return palette(self.app).ground.bgcolor is not None and not any(self.gutter)

    def line(self, y: int) -> tuple[Line, Style]:
        """Return the line at ``y``, and its background."""
        self._keep_up()
        if y < len(self._shown):
            return self._shown[y], self._ground
        return [(" " * self.size.width, PLAIN)], palette(self.app).ground

    def render_line(self, y: int) -> Strip:
        """Return the line at ``y``."""
        self._keep_up()
        strip = self._strips.get(y)
        if strip is None:
            line, ground = self.line(y)
            strip = Strip([Segment(text, ground + style if style else ground) for text, style in line])
            if y < len(self._shown):
                self._strips[y] = strip
        return strip

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the part ``crop`` of the lines.

        Textual's own way draws each line again with the borders, the padding and the background of the style
        sheet. Most widgets here have no borders and no padding, and their lines have a background.
        """
        if not self.opaque:
            return super().render_lines(crop)
        strips = []
        background = self.background_colors[1]
        for y in crop.line_range:
            strip = self.render_line(y)
            for one in self.get_line_filters():
                strip = strip.apply_filter(one, background)
            strips.append(strip.crop(*crop.column_span))
        return strips

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size."""
        self.redraw()

    def on_mount(self) -> None:
        """Repaint whenever the theme changes."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self.repaint())

    def repaint(self) -> None:
        """Compute and paint every line again."""
        self._shown = []
        self.redraw()
