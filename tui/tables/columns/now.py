"""Columns that show a row as it is in the window."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stalltop.model.devices.labels import order_of, text_of
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.tui.tables.columns.kind import BLANK, ColumnStyle, Kind, Values
from stalltop.tui.tables.groups import HUNG_NS, LONG_OPEN_NS, Grouped
from stalltop.tui.tables.split import CELLS, bar
from stalltop.widgets.table import Cell, Role

TREND_WINDOWS = 10
"""Windows in the trend of a row, one cell each."""


def _calls(rows: Grouped, i: int) -> int:
    return int(rows.groups.calls[rows.at[i]])


def _nested(rows: Grouped, i: int) -> Role:
    """Return the role ``dim`` for figures that are not part of the whole: of nested calls and of the time
    between calls."""
    at = rows.at[i]
    return "dim" if rows.groups.nested[at] or rows.groups.between[at] else ""


def _beside(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    labels = rows.labels[i]
    # Unfolded rows have longer keys; their parent shows the second dimension.
    return Cell(labels[1] if len(labels) == 2 else "", "dim")


def _rate(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return Cell(figures.rate(float(rows.groups.calls_per_s[rows.at[i]]), style.glyphs))


def _count(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return Cell(figures.count(_calls(rows, i), style.glyphs), "dim")


def _percentile(number: int, few: int) -> Callable[[Grouped, int, ColumnStyle], Cell]:
    """Return the function that draws percentile number ``number`` of ``percentiles_ns``.

    The cell is dim for fewer calls than ``few``, because then less than one call lies above the percentile.
    """

    def made(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
        ns = int(rows.groups.percentiles_ns[rows.at[i], number])
        unsure = _calls(rows, i) < few
        return Cell(figures.duration(ns, style.glyphs), "dim" if unsure else "", unsure=unsure)

    return made


def _max(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return Cell(figures.duration(int(rows.groups.max_ns[rows.at[i]]), style.glyphs))


def _total(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    ns = int(rows.groups.total_ns[rows.at[i]])
    return Cell(figures.duration(ns, style.glyphs), _nested(rows, i))


def _total_values(rows: Grouped) -> Values:
    # An open call takes time too, but is counted only when it returns.
    known = np.nan_to_num(rows.of(rows.groups.total_ns), nan=0.0) + rows.waited_ns
    return np.where((rows.at >= 0) | (rows.waited_ns > 0), known, np.nan)


def _part(rows: Grouped, i: int) -> float:
    """Return the share of a row; NaN for the time between calls, which is no part of the calls' time."""
    groups, at = rows.groups, rows.at[i]
    if groups.between[at]:
        return float("nan")
    return int(groups.total_ns[at]) / rows.whole_ns if rows.whole_ns else 0.0


def _share(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return Cell(figures.percent(100 * _part(rows, i), style.glyphs), _nested(rows, i))


def _bar(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    """Return the share as a bar of up to ten cells, with half cells if the glyphs have one."""
    share = _part(rows, i)
    share = min(max(share, 0.0), 1.0) if share == share else 0.0
    halves = round(share * 20)
    text = style.glyphs.bar * (halves // 2) + style.glyphs.half_bar * (halves % 2)
    if not style.glyphs.half_bar:
        text = style.glyphs.bar * round(share * 10)
    return Cell(text, _nested(rows, i) or "accent")


def _split(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    split_ns = rows.groups.split_ns
    parts = None if split_ns is None else split_ns[rows.at[i]]
    return Cell("", parts=bar(parts, glyphs=style.glyphs, letters=style.letters))


def _errors(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    errors = int(rows.groups.errors[rows.at[i]])
    return Cell(figures.count(errors, style.glyphs), "bad" if errors else "dim")


def _bytes(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    moved = float(rows.groups.bytes_per_s[rows.at[i]])
    return Cell(figures.size(moved, style.glyphs) if moved else "")


def _open(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    age = int(rows.open_ns[i])
    role: Role = "bad" if age >= HUNG_NS else "warn" if age >= LONG_OPEN_NS else "dim"
    return Cell(figures.duration(age, style.glyphs) if age else "", role)


def _open_values(rows: Grouped) -> Values:
    return rows.open_ns.astype(np.float64)


def _processes(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return Cell(figures.count(int(rows.processes[i]), style.glyphs), "dim")


def _process_values(rows: Grouped) -> Values:
    return rows.processes.astype(np.float64)


def _devices(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return Cell(text_of(rows.devices[i]) or figures.missing(1, style.glyphs), "dim")


def _device_values(rows: Grouped) -> Values:
    # MIG devices of one GPU come in the order of their instances.
    first = [order_of(labels[0]) if labels else (np.nan, 0, "") for labels in rows.devices]
    return np.array([gpu + (instance + 1) / 1000 for gpu, instance, _ in first], np.float64)


def _device_bytes(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return Cell(figures.memory(float(rows.device_bytes[i]), style.glyphs))


def _device_bytes_values(rows: Grouped) -> Values:
    return rows.device_bytes


def trend(past: NDArray[np.floating], *, glyphs: Glyphs = UNICODE, most: int = TREND_WINDOWS) -> str:
    """Draw the newest ``most`` of ``past`` as a sparkline, the newest at the right. NaN is a blank.

    The logarithmic scale goes from the least to the largest value, and covers at least a factor of two, so
    that small changes look flat.
    """
    newest = past[-most:]
    known = newest[np.isfinite(newest) & (newest > 0)]
    if not len(known):
        return " " * most
    low = float(np.log2(known.min()))
    span = max(float(np.log2(known.max())) - low, 1.0)
    text = ""
    for value in newest.tolist():
        if not (np.isfinite(value) and value > 0):
            text += " "
        else:
            text += glyphs.trend_levels[round((np.log2(value) - low) / span * (len(glyphs.trend_levels) - 1))]
    return text.rjust(most)


def _trend(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    if rows.p99_past_ns is None:
        return BLANK
    return Cell(trend(rows.p99_past_ns[i], glyphs=style.glyphs), "label")


def ratio(value: float, glyphs: Glyphs = UNICODE) -> str:
    """Format a ratio in five cells: `` 0.97``, `` 12.3``, ``1.23k``."""
    return figures.rate(value, glyphs)


def _change_values(rows: Grouped) -> Values:
    return rows.changes


def _normal_values(rows: Grouped) -> Values:
    return rows.against_normal


def _against(values: Callable[[Grouped], Values]) -> Callable[[Grouped, int, ColumnStyle], Cell]:
    """Return the function that draws a p99 divided by another one. The cell is marked if the ratio is large
    and enough calls support it."""

    def made(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
        value = float(values(rows)[i])
        role: Role = "warn" if value >= 2 and _calls(rows, i) >= 100 else "dim" if not value > 1.2 else ""
        return Cell(ratio(value, style.glyphs), role)

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
    Kind("p95", "P95", 6, "95 % of the calls took no longer; dim for fewer than 20 calls",
         _percentile(1, 20), _column("p95_ns")),
    Kind("p99", "P99", 6, "99 % of the calls took no longer; dim for fewer than 100 calls",
         _percentile(2, 100), _column("p99_ns")),
    Kind("max", "MAX", 6, "the longest call", _max, _column("max_ns")),
    Kind("total", "TOTAL", 6,
         "time in calls, summed over threads; sorting by it adds the time of open calls",
         _total, _total_values),
    Kind("share", "SHARE", 5, "share of the time of all calls below the path in the table's title",
         _share, sort="total"),
    Kind("bar", "", 10, "SHARE as a bar", _bar, sort="total", right=False, uncounted=BLANK),
    Kind("split", "SPLIT", CELLS, "where the time of the calls went, by letters and colours",
         _split, right=False, needs="split"),
    Kind("open", "OPEN", 6, "age of the oldest call that has not returned yet",
         _open, _open_values, always=True),
    Kind("errors", "ERR", 5, "calls that returned an error", _errors, _column("errors"), uncounted=BLANK),
    Kind("bytes", "BYTES/S", 7, "bytes moved per second; empty for calls that move none",
         _bytes, _column("bytes"), uncounted=BLANK),
    Kind("n", "CALLS", 6, "calls within the window", _count, sort="calls", uncounted=BLANK),
    Kind("trend", "P99 TREND", TREND_WINDOWS, "p99 of each of the ten newest windows, on a scale of its own",
         _trend, sort="change", right=False, needs="past", uncounted=BLANK),
    Kind("change", "P99/MED", 7, "p99 divided by the row's median p99 in the last 10 to 60 windows",
         _against(_change_values), _change_values, needs="past"),
    Kind("normal", "P99/NORM", 8, "p99 divided by its baseline, learned from windows without problems",
         _against(_normal_values), _normal_values, needs="normals"),
    Kind("procs", "PROCS", 5, "processes that made the calls", _processes, _process_values, uncounted=BLANK),
    Kind("device", "GPU", 5, "devices of its calls; else those on which its processes hold a context",
         _devices, _device_values, uncounted=BLANK),
    Kind("gpu_memory", "GPU MEM", figures.MEMORY_WIDTH,
         "memory that its processes hold on all GPUs; by device: on that one",
         _device_bytes, _device_bytes_values),
)
# fmt: on
"""All these columns in the order in which they are offered."""
