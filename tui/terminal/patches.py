"""Repaints the cells of widgets that changed, without Textual's compositor.

For each update the compositor renders all lines of all widgets around the cells that changed, and cuts them
into pieces, which the driver then has to parse. The widgets here know the cells that changed, and do not
overlap. So these cells go from the widget to the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rich.cells import split_text
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from stalltop.tui.terminal.lean import CellStyle, cell_style
from stalltop.tui.terminal.lean_driver import LeanDriver
from stalltop.tui.terminal.textual_internals import Compositor, CompositorUpdate
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.strips import Line, cells

_MOST_KEPT = 4096
"""If the styles of more pieces than this are known, they are forgotten. A theme needs a few hundred."""


class LinePatches(CompositorUpdate):
    """Paints parts of widgets on the terminal of ``driver``."""

    def __init__(
        self, driver: LeanDriver, parts: Sequence[tuple[Lines, Region, Region]], looks: Styles
    ) -> None:
        """``parts``: widgets, their places on the screen, and the regions of the screen to paint."""
        self._driver = driver
        self._parts = parts
        self._looks = looks

    def render_segments(self, console: Console) -> str:
        """Paint. The driver sends it with the text that it writes next, so the text returned is empty."""
        lean = self._driver.lean
        system = COLOR_SYSTEMS[console.color_system or "truecolor"]
        all_looks: dict[Lines, _StylesOn] = {}
        for widget, place, region in self._parts:
            start, end = region.x - place.x, region.right - place.x
            looks = all_looks.get(widget) or all_looks.setdefault(widget, self._looks.of(widget, system))
            for y in region.line_range:
                line, ground = widget.line(y - place.y)
                pieces = [(text, looks.look(style, ground)) for text, style in _between(line, start, end)]
                lean.paint(y + 1, region.x + 1, pieces)
        return ""


class Styles:
    """The styles of cells on the terminal."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], _StylesOn] = {}

    def of(self, widget: Widget, system: ColorSystem) -> _StylesOn:
        """Return the styles for ``widget`` in a terminal with the colours ``system``."""
        filters = tuple(widget.get_line_filters())
        key = filters, widget.background_colors[1], system
        found = self._known.get(key)
        if found is None:
            if len(self._known) > 50:  # after changes of the theme
                self._known.clear()
            found = self._known[key] = _StylesOn(*key)
        return found


class _StylesOn:
    """The styles of cells, by the styles of pieces of lines."""

    def __init__(self, filters: Sequence[LineFilter], background: Color, system: ColorSystem) -> None:
        self._filters = filters
        self._background = background
        self._system = system
        self._known: dict[tuple[int, int], tuple[Style, Style, CellStyle]] = {}
        """By the ids of a style and of the ground under it, because Rich takes long to hash and to compare
        styles. The values keep both alive, so that their ids stay theirs."""

    def look(self, style: Style, ground: Style) -> CellStyle:
        """Return how ``style`` looks on ``ground``."""
        known = self._known.get((id(style), id(ground)))
        return self._made(style, ground) if known is None else known[2]

    def _made(self, style: Style, ground: Style) -> CellStyle:
        segments = [Segment(" ", ground + style if style else ground)]
        for one in self._filters:
            segments = one.apply(segments, self._background)
        wanted = segments[0].style
        found = cell_style(Strip.render_ansi(wanted, self._system) if wanted else "")
        if len(self._known) > _MOST_KEPT:
            self._known.clear()
        self._known[id(style), id(ground)] = style, ground, found
        return found


def _between(line: Line, start: int, end: int) -> Line:
    """Return the pieces of ``line`` between two cells. No character may lie across them."""
    found: Line = []
    at = 0
    for piece in line:
        text, style = piece
        first, at = at, at + cells(text)
        if at <= start:
            continue
        if first >= end:
            break
        if first >= start and at <= end:
            found.append(piece)
        else:
            _, text = split_text(text, max(start - first, 0))
            text, _ = split_text(text, min(end, at) - max(start, first))
            found.append((text, style))
    return found


class Patcher:
    """Finds the widgets to repaint."""

    def __init__(self) -> None:
        self._looks = Styles()

    def patches(self, compositor: Compositor, regions: Collection[Region]) -> CompositorUpdate | None:
        """Return the update that repaints ``regions`` of a screen; None if a part of them shows anything but
        one of our widgets."""
        visible = compositor.visible_widgets
        found: list[tuple[Lines, Region, Region]] = []
        opaque: set[Lines] = set()
        driver = None
        for region in regions:
            front = next((one for one in visible if visible[one][0].overlaps(region)), None)
            if not isinstance(front, Lines):
                return None
            if front not in opaque:
                if not front.opaque:
                    return None
                opaque.add(front)
                driver = getattr(front.app, "driver", None)
            place, clip = visible[front]
            if not place.intersection(clip).contains_region(region):
                return None
            found.append((front, place, region))
        if not isinstance(driver, LeanDriver):
            return None
        return LinePatches(driver, found, self._looks)
