"""Columns that show a row as it is in the window."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stalltop.model.devices.labels import order_of, text_of
from stalltop.model.text import figures
from stalltop.tui.tables.columns.kind import BLANK, Kind, Look, Values
from stalltop.tui.tables.groups import HUNG_NS, LONG_OPEN_NS, Grouped
from stalltop.tui.tables.split import CELLS, bar
from stalltop.widgets.table import Cell, Role

TREND_WINDOWS = 10
"""Windows that the trend of a row goes back, one cell each."""
_BLOCKS, _STEPS = "▁▂▃▄▅▆▇", "_.-=+*#"
"""Heights of a trend, with and without Unicode."""


def _calls(rows: Grouped, i: int) -> int:
    return int(rows.groups.calls[rows.at[i]])


def _nested(rows: Grouped, i: int) -> Role:
    """Figures that come on top of the whole are dimmed: of calls inside others, of the time between calls."""
    at = rows.at[i]
    return "dim" if rows.groups.nested[at] or rows.groups.between[at] else ""


def _beside(rows: Grouped, i: int, look: Look) -> Cell:
    labels = rows.labels[i]
    # Rows that are unfolded below others have longer keys, and what is beside them stands above.
    return Cell(labels[1] if len(labels) == 2 else "", "dim")


def _rate(rows: Grouped, i: int, look: Look) -> Cell:
    return Cell(figures.rate(float(rows.groups.calls_per_s[rows.at[i]]), unicode=look.unicode))


def _count(rows: Grouped, i: int, look: Look) -> Cell:
    return Cell(figures.count(_calls(rows, i), unicode=look.unicode), "dim")


def _percentile(number: int, few: int) -> Callable[[Grouped, int, Look], Cell]:
    """The percentile in that column of ``percentiles_ns``; dim where fewer calls than ``few`` support it:
    less than one of them then is beyond it."""

    def made(rows: Grouped, i: int, look: Look) -> Cell:
        ns = int(rows.groups.percentiles_ns[rows.at[i], number])
        unsure = _calls(rows, i) < few
        return Cell(figures.duration(ns, unicode=look.unicode), "dim" if unsure else "", unsure=unsure)

    return made


def _max(rows: Grouped, i: int, look: Look) -> Cell:
    return Cell(figures.duration(int(rows.groups.max_ns[rows.at[i]]), unicode=look.unicode))


def _total(rows: Grouped, i: int, look: Look) -> Cell:
    ns = int(rows.groups.total_ns[rows.at[i]])
    return Cell(figures.duration(ns, unicode=look.unicode), _nested(rows, i))


def _total_values(rows: Grouped) -> Values:
    # A call that hangs takes time too, though nothing of it is counted before it returns.
    known = np.nan_to_num(rows.of(rows.groups.total_ns), nan=0.0) + rows.waited_ns
    return np.where((rows.at >= 0) | (rows.waited_ns > 0), known, np.nan)


def _part(rows: Grouped, i: int) -> float:
    """Share of a row; NaN for the time between calls, which is no part of the calls' time."""
    groups, at = rows.groups, rows.at[i]
    if groups.between[at]:
        return float("nan")
    return int(groups.total_ns[at]) / rows.whole_ns if rows.whole_ns else 0.0


def _share(rows: Grouped, i: int, look: Look) -> Cell:
    return Cell(figures.percent(100 * _part(rows, i), unicode=look.unicode), _nested(rows, i))


def _bar(rows: Grouped, i: int, look: Look) -> Cell:
    """The share as a bar of up to ten cells, in half cells where the characters allow it."""
    share = _part(rows, i)
    share = min(max(share, 0.0), 1.0) if share == share else 0.0
    halves = round(share * 20)
    text = "━" * (halves // 2) + "╸" * (halves % 2) if look.unicode else "#" * round(share * 10)
    return Cell(text, _nested(rows, i) or "accent")


def _split(rows: Grouped, i: int, look: Look) -> Cell:
    split_ns = rows.groups.split_ns
    parts = None if split_ns is None else split_ns[rows.at[i]]
    return Cell("", parts=bar(parts, unicode=look.unicode, letters=look.letters))


def _errors(rows: Grouped, i: int, look: Look) -> Cell:
    errors = int(rows.groups.errors[rows.at[i]])
    return Cell(figures.count(errors, unicode=look.unicode), "bad" if errors else "dim")


def _bytes(rows: Grouped, i: int, look: Look) -> Cell:
    moved = float(rows.groups.bytes_per_s[rows.at[i]])
    return Cell(figures.size(moved, unicode=look.unicode) if moved else "")


def _open(rows: Grouped, i: int, look: Look) -> Cell:
    age = int(rows.open_ns[i])
    role: Role = "bad" if age >= HUNG_NS else "warn" if age >= LONG_OPEN_NS else "dim"
    return Cell(figures.duration(age, unicode=look.unicode) if age else "", role)


def _open_values(rows: Grouped) -> Values:
    return rows.open_ns.astype(np.float64)


def _processes(rows: Grouped, i: int, look: Look) -> Cell:
    return Cell(figures.count(int(rows.processes[i]), unicode=look.unicode), "dim")


def _process_values(rows: Grouped) -> Values:
    return rows.processes.astype(np.float64)


def _devices(rows: Grouped, i: int, look: Look) -> Cell:
    return Cell(text_of(rows.devices[i]) or figures.missing(1, unicode=look.unicode), "dim")


def _device_values(rows: Grouped) -> Values:
    # Within a GPU in the order of its MIG devices, of which there are a few.
    first = [order_of(labels[0]) if labels else (np.nan, 0, "") for labels in rows.devices]
    return np.array([gpu + (instance + 1) / 1000 for gpu, instance, _ in first], np.float64)


def trend(past: NDArray[np.floating], *, unicode: bool = True, most: int = TREND_WINDOWS) -> str:
    """The newest ``most`` of ``past`` as a line of heights, the newest at the right; NaN is a blank.

    Its scale is its own, from the least to the largest value, but never less than the factor of two: what
    hardly changes looks flat.
    """
    newest = past[-most:]
    known = newest[np.isfinite(newest) & (newest > 0)]
    if not len(known):
        return " " * most
    heights = _BLOCKS if unicode else _STEPS
    low = float(np.log2(known.min()))
    span = max(float(np.log2(known.max())) - low, 1.0)
    text = ""
    for value in newest.tolist():
        if not (np.isfinite(value) and value > 0):
            text += " "
        else:
            text += heights[round((np.log2(value) - low) / span * (len(heights) - 1))]
    return text.rjust(most)


def _trend(rows: Grouped, i: int, look: Look) -> Cell:
    if rows.p99_past_ns is None:
        return BLANK
    return Cell(trend(rows.p99_past_ns[i], unicode=look.unicode), "label")


def ratio(value: float, *, unicode: bool = True) -> str:
    """A ratio in five cells: `` 0.97``, `` 12.3``, ``1.23k``."""
    return figures.rate(value, unicode=unicode)


def _change_values(rows: Grouped) -> Values:
    return rows.changes


def _normal_values(rows: Grouped) -> Values:
    return rows.against_normal


def _against(values: Callable[[Grouped], Values]) -> Callable[[Grouped, int, Look], Cell]:
    """A p99 against another one; marked where it is far above and enough calls support it."""

    def made(rows: Grouped, i: int, look: Look) -> Cell:
        value = float(values(rows)[i])
        role: Role = "warn" if value >= 2 and _calls(rows, i) >= 100 else "dim" if not value > 1.2 else ""
        return Cell(ratio(value, unicode=look.unicode), role)

    return made


def _column(name: str) -> Callable[[Grouped], Values]:
    def values(rows: Grouped) -> Values:
        column: NDArray[np.integer] | NDArray[np.floating] = getattr(rows.groups, name)
        return rows.of(column)

    return values


# fmt: off
KINDS: tuple[Kind, ...] = (
    Kind("beside", "", 18, "the container of a process, the layer of an operation, the namespace of a pod",
         _beside, sort="name", right=False, always=True),
    Kind("calls", "CALL/S", 6, "calls per second over the window", _rate, _column("calls")),
    Kind("p50", "P50", 6, "half of the calls took no longer", _percentile(0, 2), _column("p50_ns")),
    Kind("p95", "P95", 6, "95 % of the calls took no longer; dim where fewer than 20 calls support it",
         _percentile(1, 20), _column("p95_ns")),
    Kind("p99", "P99", 6, "99 % of the calls took no longer; dim where fewer than 100 calls support it",
         _percentile(2, 100), _column("p99_ns")),
    Kind("max", "MAX", 6, "the longest call", _max, _column("max_ns")),
    Kind("total", "TOTAL", 6,
         "time spent in calls, all threads together; sorting by it adds what calls of OPEN took so far",
         _total, _total_values),
    Kind("share", "SHARE", 5, "of the time of all calls below the path shown on top of the table",
         _share, sort="total"),
    Kind("bar", "", 10, "SHARE as a bar", _bar, sort="total", right=False, uncounted=BLANK),
    Kind("split", "SPLIT", CELLS, "where the time of its calls went, by letters and colours",
         _split, right=False, needs="split"),
    Kind("open", "OPEN", 6, "age of the oldest call that has not returned yet",
         _open, _open_values, always=True),
    Kind("errors", "ERR", 5, "calls that returned an error", _errors, _column("errors"), uncounted=BLANK),
    Kind("bytes", "BYTES/S", 7, "bytes that the calls moved, per second; empty where calls move none",
         _bytes, _column("bytes"), uncounted=BLANK),
    Kind("n", "CALLS", 6, "calls within the window", _count, sort="calls", uncounted=BLANK),
    Kind("trend", "P99 TREND", TREND_WINDOWS, "p99 of each of the ten newest windows, on a scale of its own",
         _trend, sort="change", right=False, needs="past", uncounted=BLANK),
    Kind("change", "P99/MED", 7, "p99 against the median of the row's own in the last 10 to 60 windows",
         _against(_change_values), _change_values, needs="past"),
    Kind("normal", "P99/NORM", 8, "p99 against what is normal for it, learned while nothing was wrong",
         _against(_normal_values), _normal_values, needs="normals"),
    Kind("procs", "PROCS", 5, "processes that made the calls", _processes, _process_values, uncounted=BLANK),
    Kind("device", "GPU", 5, "devices it ran on; else those that its processes hold a context on",
         _devices, _device_values, uncounted=BLANK),
)
# fmt: on
"""In the order in which they are offered."""
