"""The time line: how much time was lost when, when problems began, and which moment is shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.style import Style
from textual import events
from textual.message import Message

from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE
from stalltop.model.window_times import WindowTimes
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Line, Part, line_of

_HEIGHTS = len(UNICODE.timeline_levels)
"""Number of heights of a bar. The lowest one is for lost time below 1 ms/s. Each further one is half a decade
higher: up to 3.2 ms/s, up to 10 ms/s, and so on to above 1 s/s."""
_TOLD = 16
"""Cells of the text about the moment that is shown."""
_LETTERS_EACH = 4
"""At most one in this many cells shows a letter in place of its bar."""
_LABEL = 5
"""Cells of the label at each end."""


@dataclass(frozen=True, slots=True, eq=False)
class Timespan:
    """What the time line shows."""

    end: float
    """Unix time of the right end."""
    seconds: float
    """Length of the line, in seconds."""
    past: WindowTimes
    shown: float | None
    """Unix time of the moment that is shown; None: now."""
    mark: float | None
    letters: tuple[str, ...]
    """One letter for each severity, the worst first."""
    roles: tuple[str, ...]
    """The name of a style for each severity, the worst first."""
    ago: float = 0.0
    """Seconds between the right end and the newest moment."""
    file: bool = False
    """Whether the time line shows a recording. The label of its right end is then ``end`` instead of
    ``now``."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """What each cell of the line shows; all arrays have shape (cells,)."""

    height: NDArray[np.int64]
    """The height of the bar, 0 to 7; -1 if nothing is known."""
    worst: NDArray[np.int64]
    began: NDArray[np.int64]


class Scale:
    """Maps times to cells. Cells begin at whole multiples of their length, so the bars move by whole cells
    and do not change in between."""

    def __init__(self, span: Timespan, cells: int) -> None:
        self.cells = cells
        self.seconds = span.seconds / cells
        self._first = int(np.ceil(span.end / self.seconds - 1e-9)) - cells

    def cell(self, at: float) -> int | None:
        """Return the cell of a window that ended at ``at``; None if it is not on the line."""
        place = int(np.ceil(at / self.seconds - 1e-9)) - 1 - self._first
        return place if 0 <= place < self.cells else None

    def time(self, cell: int) -> float:
        """Return the Unix time of the middle of a cell."""
        return (self._first + cell + 0.5) * self.seconds

    def fill(self, past: WindowTimes, none: int) -> Cells:
        """Return what each cell shows. For the windows of ``past`` in a cell, these are the largest loss, the
        worst severity, and the worst severity of a problem that began. ``none`` is the code for no
        severity."""
        height = np.full(self.cells, -1, np.int64)
        worst, began = np.full(self.cells, none, np.int64), np.full(self.cells, none, np.int64)
        first = np.floor(past.start / self.seconds + 1e-9).astype(np.int64) - self._first
        last = np.ceil(past.end / self.seconds - 1e-9).astype(np.int64) - 1 - self._first
        inside = np.flatnonzero((last >= 0) & (first < self.cells) & (last >= first))
        first, last = np.maximum(first[inside], 0), np.minimum(last[inside], self.cells - 1)
        counts = last - first + 1
        steps = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        cells = np.repeat(first, counts) + steps
        np.maximum.at(height, cells, np.repeat(heights(past.lost_ms_per_s[inside]), counts))
        np.minimum.at(worst, cells, np.repeat(past.worst[inside], counts))
        np.minimum.at(began, first, past.began[inside])
        return Cells(height, worst, began)


def heights(lost_ms_per_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the height of each bar, 0 to 7, by half decades from 1 ms/s to 1 s/s; -1 for unknown values."""
    steps = np.floor(2 * np.log10(np.maximum(np.nan_to_num(lost_ms_per_s), 0.1))) + 1
    found = np.asarray(np.clip(steps, 0, _HEIGHTS - 1), dtype=np.int64)
    return np.where(np.isnan(lost_ms_per_s), -1, found)


def _lettered(began: NDArray[np.int64], none: int) -> int:
    """Return how many severities, counted from the worst, get letters where their problems begin. At most one
    in ``_LETTERS_EACH`` cells gets a letter: more letters would hide too many bars."""
    upto = np.cumsum(np.bincount(began, minlength=none + 1)[:none])
    return int(np.searchsorted(upto, len(began) // _LETTERS_EACH, "right"))


def _unfilled(style: Style) -> Style:
    """Return ``style`` for a bar. On a background of its own, or reversed, the empty part of the bar would be
    the loud one."""
    if style.bgcolor is None and not style.reverse:
        return style
    return Style(color=style.bgcolor if style.bgcolor is not None else style.color, bold=True)


def span_text(seconds: float) -> str:
    """Format how long ago something is, such as ``-15m``, in at most four cells up to 99 days."""
    if seconds < 59.5:
        return f"-{seconds:.0f}s"
    if seconds < 3_600:
        return f"-{seconds / 60:.0f}m"
    if seconds < 172_800:
        return f"-{seconds / 3_600:.0f}h"
    return f"-{seconds / 86_400:.0f}d"


class Timeline(Lines):
    """Shows a ``Timespan``. A click or a drag of the mouse posts ``MomentChosen``."""

    @dataclass
    class MomentChosen(Message):
        """Reports the moment that a click or a drag chose."""

        at: float
        """The moment that was chosen, Unix time."""

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self._span: Timespan | None = None
        self._scale: Scale | None = None
        self._first = 0
        """The first cell of the bars."""
        self._asked = -1
        """The cell that the mouse chose last while its button is down."""

    def show(self, span: Timespan) -> None:
        """Show ``span``."""
        self._span = span
        self.redraw()

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return the one line."""
        span = self._span
        told = _TOLD if width >= 60 else 0
        cells = width - 2 * _LABEL - told
        if span is None or cells < 8:
            self._scale = None
            return [line_of((), width)]
        scale = self._scale = Scale(span, cells)
        # A gap separates the text about the moment from the labels.
        parts: list[Part] = [(f" {self._told(span):<{told - 1}}" if told else "", paint.label)]
        parts.append((f"{span_text(span.ago + span.seconds):>{_LABEL - 1}} ", paint.dim))
        parts += self._bars(span, scale, paint)
        right = span_text(span.ago) if span.ago else "end" if span.file else "now"
        parts.append((f" {right:<{_LABEL - 1}}", paint.dim if span.shown is not None else paint.good))
        self._first = told + _LABEL
        return [line_of(parts, width)]

    def _bars(self, span: Timespan, scale: Scale, paint: Palette) -> list[Part]:
        """Return one part for each cell."""
        glyphs = self.glyphs
        none = len(span.roles)
        found = scale.fill(span.past, none)
        lettered = _lettered(found.began, none)
        parts: list[Part] = []
        for height, worst, began in zip(
            found.height.tolist(), found.worst.tolist(), found.began.tolist(), strict=True
        ):
            style: Style = paint.dim if worst >= none else _unfilled(getattr(paint, span.roles[worst]))
            if began < lettered:
                parts.append((span.letters[began], getattr(paint, span.roles[began])))
            else:
                parts.append((" " if height < 0 else glyphs.timeline_levels[height], style))
        if span.mark is not None and (cell := scale.cell(span.mark)) is not None:
            parts[cell] = ("m", paint.accent)
        if span.shown is not None and (cell := scale.cell(span.shown)) is not None:
            parts[cell] = (glyphs.moment, paint.head)
        return parts

    def _told(self, span: Timespan) -> str:
        """Return the text about the time lost at the moment that is shown."""
        past = span.past
        at = len(past.end) - 1
        if span.shown is not None:
            at = min(int(np.searchsorted(past.end, span.shown - 1e-3)), at)
        if at < 0:
            return ""
        lost = float(past.lost_ms_per_s[at])
        if lost <= 0:
            return "nothing lost"
        return f"lost {figures.duration(lost * 1e6, self.glyphs).strip()}/s"

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Choose the moment under the mouse, and follow the mouse while the button is down."""
        event.stop()
        if self._scale is not None and 0 <= event.x - self._first < self._scale.cells:
            self._asked = -1
            self.capture_mouse()
            self._ask(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Choose the moment under the mouse while the button is down."""
        if self.app.mouse_captured is self:
            event.stop()
            self._ask(event.x)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Stop following the mouse."""
        event.stop()
        self.release_mouse()

    def _ask(self, x: int) -> None:
        """Post ``MomentChosen`` for the cell in column ``x``. A column beyond an end of the line counts as
        that end."""
        if self._scale is None:
            return
        cell = min(max(x - self._first, 0), self._scale.cells - 1)
        if cell != self._asked:
            self._asked = cell
            self.post_message(self.MomentChosen(self._scale.time(cell)))
