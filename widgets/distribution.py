"""Draws a histogram of call durations over a logarithmic axis, with percentiles marked below it.

The number of calls is on a logarithmic scale too: next to a hundred thousand quick calls, a hundred slow
calls, which users look for, would not be visible on a linear scale. The functions turn a histogram into lines
of (text, role). The number of lines depends on the size only, so that nothing below the histogram moves when
it changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.model.histograms.hdr import highest_ns, lowest_ns
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.rows.pivot import PERCENTS, bounded
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.widgets.drawing.magnitude import UNSURE

Line = tuple[tuple[str, str], ...]
"""The (text, role) of each piece of a line, left to right."""

LEAST_CALLS: Final = (0, 20, 100, 0)
"""The least number of calls for which p50, p95, p99 and max are reliable; 0: any number. With this many, at
least one call lies above p95 or p99. With fewer, ``UNSURE`` stands before the figure."""
_NAMES = ("p50", "p95", "p99", "max")
_GUTTER = 7
"""Cells left of the axis: a count, a blank and the axis itself."""
_LABEL = 5 + figures.DURATION_WIDTH
"""Cells of a label such as ``p99 ~12.3ms``."""
_APART = 2
"""Least number of cells between two labels."""
_ONE_ROW = 4 * _LABEL + 3 * _APART
"""Least width in cells at which the four labels fit on one line."""
_TICK = 7
"""Least number of cells for a tick and its label."""
_NOTHING: Line = ((" " * _GUTTER + "no call returned", "dim"),)
_LABELS_APART = 2
"""Least number of rows between two labels of the vertical scale."""
_UNITS = ((1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s"))


@dataclass(frozen=True, slots=True)
class DurationAxis:
    """A logarithmic axis. Both ends are 1, 2 or 5 times a power of ten, so that they seldom change."""

    low_ns: int
    high_ns: int

    def cell(self, ns: float, cells: int) -> int:
        """Return which of ``cells`` cells a duration (ns) is in."""
        part = math.log(max(ns, 1) / self.low_ns) / math.log(self.high_ns / self.low_ns)
        return min(max(int(part * cells), 0), cells - 1)

    def edges_ns(self, cells: int) -> NDArray[np.float64]:
        """Return the durations (ns) at the edges of ``cells`` cells, shape (cells + 1,)."""
        return np.geomspace(self.low_ns, self.high_ns, cells + 1)


def axis_of(histogram: Histograms, max_ns: int, before: DurationAxis | None = None) -> DurationAxis | None:
    """Return an axis that covers all durations of ``histogram`` (a single one), ``max_ns`` and the axis
    ``before``.

    Returns ``before`` if the histogram is empty.
    """
    if not len(histogram.index):
        return before
    first, last = lowest_ns(histogram.index[[0, -1]]).tolist()
    low, high = _round_down(first), _round_up(max(last, max_ns, 1))
    return (
        DurationAxis(min(low, before.low_ns), max(high, before.high_ns))
        if before is not None
        else DurationAxis(low, high)
    )


def lines_of(width: int, height: int) -> int:
    """Return how many lines ``distribution`` draws if its columns are ``height`` cells high."""
    return height + (4 if width >= _ONE_ROW else 5)


def distribution(
    histogram: Histograms,
    max_ns: int,
    *,
    width: int,
    height: int,
    axis: DurationAxis | None = None,
    glyphs: Glyphs = UNICODE,
) -> list[Line]:
    """Draw ``histogram`` (a single one) as ``lines_of(width, height)`` lines of at most ``width`` cells.

    The height of a column shows how many calls took a time between the edges of the column. The scale is at
    the left; even a single call is visible. ``width`` is at least 24. ``max_ns`` is the longest call, which
    may be longer than the last bucket of the histogram. ``axis`` is a range that the axis covers at least.
    """
    width = max(width, 24)
    cells = width - _GUTTER
    axis = axis_of(histogram, max_ns, axis)
    if axis is None:
        empty: list[Line] = [() for _ in range(lines_of(width, height))]
        empty[height // 2] = _NOTHING
        return empty
    counts = _counts(histogram, axis, cells)
    calls = int(histogram.totals()[0])
    marks = _marks(histogram, max_ns)
    tail = axis.cell(marks[2], cells) + 1 if calls >= LEAST_CALLS[2] else cells
    lines = _columns(counts, height, tail, glyphs)
    lines += _ticks(axis, cells, glyphs)
    if not calls:
        lines[height // 2] = _NOTHING
        return lines + [()] * (lines_of(width, height) - len(lines))
    return lines + _marked(axis, marks, calls, width, glyphs)


# ---- the columns


def _counts(histogram: Histograms, axis: DurationAxis, cells: int) -> NDArray[np.float64]:
    """Return the number of calls in each cell. The calls of a bucket wider than a cell are spread evenly over
    the cells that the bucket covers: otherwise the histogram would show gaps."""
    if not len(histogram.index):
        return np.zeros(cells)
    lower = np.maximum(lowest_ns(histogram.index), axis.low_ns)
    upper = np.clip(highest_ns(histogram.index) + 1, lower, axis.high_ns)
    reached = np.cumsum(histogram.count.astype(np.float64))
    begins = np.concatenate((np.zeros(1), reached[:-1]))
    at = np.log(np.stack((lower, upper), axis=1).astype(np.float64)).reshape(-1)
    below = np.interp(np.log(axis.edges_ns(cells)), at, np.stack((begins, reached), axis=1).reshape(-1))
    below[0], below[-1] = 0.0, reached[-1]
    return np.asarray(np.diff(below), dtype=np.float64)


def _columns(counts: NDArray[np.float64], height: int, tail: int, glyphs: Glyphs) -> list[Line]:
    """Draw ``counts`` as columns of up to ``height`` cells. Cells from number ``tail`` on, the calls slower
    than p99, have the role ``bright``."""
    steps = len(glyphs.histogram_levels) - 1
    # The scale reaches to at least one call. A bucket that is spread over several cells may leave less than
    # one call in each of them.
    top = _round_up(math.ceil(max(float(counts.max()), 1.0)) - 1)
    whole = math.log1p(top)
    scale = _scale(top, height)
    levels = np.rint(np.log1p(counts) / whole * height * steps).astype(np.int64)
    levels[(counts > 0) & (levels == 0)] = 1
    lines: list[Line] = []
    for row in reversed(range(height)):
        level = np.clip(levels - row * steps, 0, steps).tolist()
        text = "".join(glyphs.histogram_levels[step] for step in level)
        front = " " * (figures.COUNT_WIDTH + 1) + glyphs.side
        if counts.any() and row in scale:
            front = figures.count(scale[row], glyphs) + " " + glyphs.tee
        lines.append(((front, "dim"), (text[:tail], "accent"), (text[tail:], "bright")))
    return lines


def _scale(top: int, height: int) -> dict[int, int]:
    """Return the labels of the scale by row (0 is the lowest). A label is the number of calls at the upper
    edge of its row: ``top``, and those powers of ten below it for which there is room."""
    found = {height - 1: top}
    lowest = height - 1
    power = 10 ** (len(str(top)) - 1)
    while power >= 1:
        row = round(math.log1p(power) / math.log1p(top) * height) - 1
        if 0 <= row <= lowest - _LABELS_APART:
            found[row] = power
            lowest = row
        power //= 10
    return found


# ---- below the columns


def _ticks(axis: DurationAxis, cells: int, glyphs: Glyphs) -> list[Line]:
    """Return two lines: the axis with its ticks, and the durations below them."""
    line = [glyphs.rule] * cells
    text = [" "] * (cells + _GUTTER)
    free = 0
    for ns in _ticked(axis, cells):
        at = axis.cell(ns, cells)
        label = _short(ns, glyphs)
        start = min(max(_GUTTER + at - len(label) // 2, 0), len(text) - len(label))
        if start < free:
            continue
        line[at] = glyphs.tick
        text[start : start + len(label)] = label
        free = start + len(label) + 1
    return [((f"    0 {glyphs.corner}{''.join(line)}", "dim"),), (("".join(text), "label"),)]


def _ticked(axis: DurationAxis, cells: int) -> list[int]:
    """Return the durations (ns) that get a tick. They are as dense as there is room: at 1, 2 and 5 times each
    power of ten, at each power of ten, or at every third power of ten."""
    steps = [axis.low_ns]
    while steps[-1] < axis.high_ns:
        steps.append(_round_up(steps[-1]))
    whole = math.log10(axis.high_ns / axis.low_ns)
    if cells >= whole * 3 * _TICK:
        return steps
    decades = [ns for ns in steps if str(ns).startswith("1")]
    if cells >= whole * _TICK:
        return decades
    return [ns for ns in decades if len(str(ns)) % 3 == 1]


def _marks(histogram: Histograms, max_ns: int) -> list[int]:
    """Return p50, p95, p99 and the longest call, in ns."""
    longest = np.array([max_ns], np.uint64)
    return [*bounded(histogram.percentiles(PERCENTS), longest)[0].tolist(), max_ns]


def _marked(axis: DurationAxis, marks: Sequence[int], calls: int, width: int, glyphs: Glyphs) -> list[Line]:
    """Return a line of pointers at ``marks``, and below it their labels: on one line, or on two if one is too
    narrow."""
    places = [_GUTTER + axis.cell(ns, width - _GUTTER) for ns in marks]
    pointers = [" "] * width
    for place in places:
        pointers[place] = glyphs.up
    labels = []
    for name, ns, least in zip(_NAMES, marks, LEAST_CALLS, strict=True):
        figure = (UNSURE if calls < least else "") + figures.duration(ns, glyphs).strip()
        labels.append((f"{name} {figure}", "bright" if name == "max" and ns > marks[-2] else "text"))
    lines: list[Line] = [(("".join(pointers), "text"),)]
    if width >= _ONE_ROW:
        return [*lines, _labels(places, labels, width)]
    return [*lines, *(_labels(places[at::2], labels[at::2], width) for at in range(2))]


def _labels(places: Sequence[int], labels: Sequence[tuple[str, str]], width: int) -> Line:
    """Return a line with the labels. Each is as near to its place as the other labels allow."""
    starts: list[int] = []
    free = 0
    for place, (text, _) in zip(places, labels, strict=True):
        starts.append(max(place - len(text) // 2, free))
        free = starts[-1] + len(text) + _APART
    end = width
    for at in reversed(range(len(starts))):
        starts[at] = max(min(starts[at], end - len(labels[at][0])), 0)
        end = starts[at] - _APART
    parts: list[tuple[str, str]] = []
    used = 0
    for start, (text, role) in zip(starts, labels, strict=True):
        parts += [(" " * (start - used), "text"), (text, role)]
        used = start + len(text)
    return tuple(parts)


# ---- round durations


def _round_down(ns: int) -> int:
    """Return the largest of 1, 2 or 5 times a power of ten that is not above ``ns``; at least 1."""
    power: int = 10 ** (len(str(max(ns, 1))) - 1)
    return max(step * power for step in (1, 2, 5) if step * power <= max(ns, 1))


def _round_up(ns: int) -> int:
    """Return the smallest of 1, 2 or 5 times a power of ten that is above ``ns``."""
    power: int = 10 ** (len(str(max(ns, 1))) - 1)
    return min(step * power for step in (1, 2, 5, 10) if step * power > ns)


def _short(ns: int, glyphs: Glyphs) -> str:
    """Format a duration that is a whole number of its unit: ``500ns``, ``20µs``, ``1ms``."""
    scale, unit = max(pair for pair in _UNITS if pair[0] <= ns)
    return f"{ns // scale}{unit.replace('µ', glyphs.micro)}"
