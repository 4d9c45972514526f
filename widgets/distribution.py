"""How long calls took, as a picture: a histogram over a logarithmic axis, its percentiles marked below it.

Calls are drawn on a logarithmic scale too: of a hundred thousand quick ones and a hundred slow ones, the slow
ones are what somebody looks for. Pure functions from a histogram to lines of (text, role). Their number
depends on the size only, so that nothing below the picture moves while it changes.
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

Line = tuple[tuple[str, str], ...]
"""(text, role) from left to right."""

LEAST_CALLS: Final = (0, 20, 100, 0)
"""Calls from which p50, p95, p99 and max say something: one at least lies beyond the percentile."""
_NAMES = ("p50", "p95", "p99", "max")
_GUTTER = 7
"""Cells left of the axis: a count and the axis itself."""
_LABEL = 4 + figures.DURATION_WIDTH
"""Cells of ``p99 12.3ms``."""
_APART = 2
"""Cells between two labels."""
_ONE_ROW = 4 * _LABEL + 3 * _APART
"""Cells from which the labels of all marks fit beside each other."""
_TICK = 7
"""Cells that a tick with its label takes at least."""
_NOTHING: Line = ((" " * _GUTTER + "no call returned", "dim"),)
_LABELS_APART = 2
"""Rows between two figures of the scale, at least."""
_UNITS = ((1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s"))


@dataclass(frozen=True, slots=True)
class DurationAxis:
    """A logarithmic axis. Both ends are 1, 2 or 5 times a power of ten, so that they seldom change."""

    low_ns: int
    high_ns: int

    def cell(self, ns: float, cells: int) -> int:
        """The cell, of so many, in which a duration (ns) lies."""
        part = math.log(max(ns, 1) / self.low_ns) / math.log(self.high_ns / self.low_ns)
        return min(max(int(part * cells), 0), cells - 1)

    def edges_ns(self, cells: int) -> NDArray[np.float64]:
        """Where the cells begin and end, shape (cells + 1,)."""
        return np.geomspace(self.low_ns, self.high_ns, cells + 1)


def axis_of(histogram: Histograms, max_ns: int, before: DurationAxis | None = None) -> DurationAxis | None:
    """The axis for ``histogram`` (one), wide enough for the one ``before`` too; None for nothing at all."""
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
    """How many lines the picture takes in all where its columns are ``height`` cells high."""
    return height + (4 if width >= _ONE_ROW else 5)


def distribution(
    histogram: Histograms,
    max_ns: int,
    *,
    width: int,
    height: int,
    axis: DurationAxis | None = None,
    unicode: bool = True,
) -> list[Line]:
    """``histogram`` (one) as ``lines_of(width, height)`` lines of at most ``width`` cells, 24 at least.

    The higher a column, the more calls between its edges, on the scale at its left; any call shows.
    ``max_ns``: the longest call, which may lie above the last counter. ``axis``: None for the one that fits.
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
    lines = _columns(counts, height, tail, unicode)
    lines += _ticks(axis, cells, unicode)
    if not calls:
        lines[height // 2] = _NOTHING
        return lines + [()] * (lines_of(width, height) - len(lines))
    return lines + _marked(axis, marks, calls, width, unicode)


# ---- the columns


def _counts(histogram: Histograms, axis: DurationAxis, cells: int) -> NDArray[np.float64]:
    """Calls in each cell. A counter that is wider than a cell is spread over those it lies in: otherwise a
    narrow distribution would look like a comb."""
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


def _columns(counts: NDArray[np.float64], height: int, tail: int, unicode: bool) -> list[Line]:
    """``counts`` as columns, the highest ``height`` cells; beyond the cell ``tail`` in another role."""
    blocks = " ▁▂▃▄▅▆▇█" if unicode else " .:|"
    steps = len(blocks) - 1
    # Never less than one call, however many cells a counter is spread over.
    top = _round_up(math.ceil(max(float(counts.max()), 1.0)) - 1)
    whole = math.log1p(top)
    scale = _scale(top, height)
    levels = np.rint(np.log1p(counts) / whole * height * steps).astype(np.int64)
    levels[(counts > 0) & (levels == 0)] = 1
    tee, side = (" ┤", " │") if unicode else (" +", " |")
    lines: list[Line] = []
    for row in reversed(range(height)):
        level = np.clip(levels - row * steps, 0, steps).tolist()
        text = "".join(blocks[step] for step in level)
        front = " " * figures.COUNT_WIDTH + side
        if counts.any() and row in scale:
            front = figures.count(scale[row], unicode=unicode) + tee
        lines.append(((front, "dim"), (text[:tail], "accent"), (text[tail:], "warn")))
    return lines


def _scale(top: int, height: int) -> dict[int, int]:
    """Rows from the bottom with the number of calls that their upper edge stands for: ``top``, and the powers
    of ten below it that have room."""
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


# ---- what stands below them


def _ticks(axis: DurationAxis, cells: int, unicode: bool) -> list[Line]:
    """The axis, and the durations at its ticks."""
    line = ["─" if unicode else "-"] * cells
    text = [" "] * (cells + _GUTTER)
    free = 0
    for ns in _ticked(axis, cells):
        at = axis.cell(ns, cells)
        label = _short(ns, unicode)
        start = min(max(_GUTTER + at - len(label) // 2, 0), len(text) - len(label))
        if start < free:
            continue
        line[at] = "┬" if unicode else "+"
        text[start : start + len(label)] = label
        free = start + len(label) + 1
    corner = "    0 └" if unicode else "    0 +"
    return [((corner + "".join(line), "dim"),), (("".join(text), "label"),)]


def _ticked(axis: DurationAxis, cells: int) -> list[int]:
    """The durations (ns) at which there is room for a tick: the finest of three ways to divide the axis."""
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
    """p50, p95, p99 and the longest call, ns."""
    longest = np.array([max_ns], np.uint64)
    return [*bounded(histogram.percentiles(PERCENTS), longest)[0].tolist(), max_ns]


def _marked(axis: DurationAxis, marks: Sequence[int], calls: int, width: int, unicode: bool) -> list[Line]:
    """A line of marks, and their figures on one line or, where that is too narrow, on two."""
    places = [_GUTTER + axis.cell(ns, width - _GUTTER) for ns in marks]
    pointers = [" "] * width
    for place in places:
        pointers[place] = "▲" if unicode else "^"
    roles = ["dim" if calls < least else "text" for least in LEAST_CALLS]
    roles[-1] = "warn" if marks[-1] > marks[-2] else roles[-1]
    labels = [
        (name + " " + figures.duration(ns, unicode=unicode).strip(), role)
        for name, ns, role in zip(_NAMES, marks, roles, strict=True)
    ]
    lines: list[Line] = [(("".join(pointers), "text"),)]
    if width >= _ONE_ROW:
        return [*lines, _labels(places, labels, width)]
    return [*lines, *(_labels(places[at::2], labels[at::2], width) for at in range(2))]


def _labels(places: Sequence[int], labels: Sequence[tuple[str, str]], width: int) -> Line:
    """Each of ``labels`` as near to its place as the others let it, in their order."""
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
    """The largest 1, 2 or 5 times a power of ten that is not above ``ns``; 1 at least."""
    power: int = 10 ** (len(str(max(ns, 1))) - 1)
    return max(step * power for step in (1, 2, 5) if step * power <= max(ns, 1))


def _round_up(ns: int) -> int:
    """The smallest 1, 2 or 5 times a power of ten above ``ns``."""
    power: int = 10 ** (len(str(max(ns, 1))) - 1)
    return min(step * power for step in (1, 2, 5, 10) if step * power > ns)


def _short(ns: int, unicode: bool) -> str:
    """A round duration: ``500ns``, ``20µs``, ``1ms``."""
    scale, unit = max(pair for pair in _UNITS if pair[0] <= ns)
    return f"{ns // scale}{unit if unicode else unit.replace('µ', 'u')}"
