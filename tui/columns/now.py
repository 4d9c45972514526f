"""Columns that show a row as it is in the window."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.model.devices.labels import order_of, text_of
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.window import SPLITS
from stalltop.tui.columns.catalogue import TREND_WINDOWS
from stalltop.tui.columns.cells import BLANK, ColumnCells, ColumnStyle, Values, duration_cell
from stalltop.tui.columns.split import bar
from stalltop.tui.views.groups import HUNG_NS, LONG_OPEN_NS, Grouped
from stalltop.widgets.table import Cell, Role

_STARVED: Final = [SPLITS.index(part) for part in ("runqueue", "disk", "memory")]
"""Indices of the parts in which a call waits for the host. The part ``lock`` is not among them: a wait for a
lock may be a wait for the device."""


def _calls(rows: Grouped, i: int) -> int:
    return int(rows.value("calls", i))


def _nested(rows: Grouped, i: int) -> Role:
    """Return the role of a share: ``dim`` for nested calls and for the time between calls, because their
    share is not part of the 100 %."""
    return "dim" if rows.value("nested", i) or rows.value("between", i) else ""


def _beside(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    labels = rows.labels[i]
    # Rows below an unfolded row have longer keys. They leave this cell empty: the row above them fills it.
    return Cell(labels[1] if len(labels) == 2 else "", "dim")


def _rate(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return Cell(figures.rate(float(rows.value("calls_per_s", i)), style.glyphs))


def _count(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return Cell(figures.count(_calls(rows, i), style.glyphs), "dim")


def _percentile(number: int, few: int) -> Callable[[Grouped, int, ColumnStyle], Cell]:
    """Return the function that draws percentile number ``number`` of ``percentiles_ns``.

    The cell is marked as unsure for fewer calls than ``few``, because then less than one call lies above the
    percentile.
    """

    def made(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
        ns = rows.percentiles_ns(i)[number]
        return duration_cell(ns, style, unsure=_calls(rows, i) < few)

    return made


def _max(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return duration_cell(int(rows.value("max_ns", i)), style)


def _mean(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    calls = _calls(rows, i)
    return duration_cell(int(rows.value("total_ns", i)) / calls if calls else None, style)


def _mean_values(rows: Grouped) -> Values:
    calls = rows.of(rows.groups.calls)
    return rows.of(rows.groups.total_ns) / np.where(calls > 0, calls, np.nan)


def _total(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    cell = duration_cell(int(rows.value("total_ns", i)), style)
    # A sum grows with the window and the threads, so a large one is nothing to look at first.
    return cell._replace(role="") if cell.role == "bright" else cell


def total_values(rows: Grouped) -> Values:
    """Return the time in calls of each row, open calls included; NaN if it is not known."""
    # An open call takes time too, but is counted only when it returns.
    known = np.nan_to_num(rows.of(rows.groups.total_ns), nan=0.0) + rows.waited_ns
    return np.where((rows.at >= 0) | (rows.waited_ns > 0), known, np.nan)


def _part(rows: Grouped, i: int) -> float:
    """Return the share of a row; NaN for the time between calls, which is no part of the calls' time."""
    if rows.value("between", i):
        return float("nan")
    return int(rows.value("total_ns", i)) / rows.whole_ns if rows.whole_ns else 0.0


def _share(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return Cell(figures.percent(100 * _part(rows, i), style.glyphs), _nested(rows, i))


def _bar(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    """Return the share as a bar of up to ten cells, in steps of half a cell if there is a glyph for it."""
    share = _part(rows, i)
    share = min(max(share, 0.0), 1.0) if share == share else 0.0
    halves = round(share * 20)
    text = style.glyphs.bar * (halves // 2) + style.glyphs.half_bar * (halves % 2)
    if not style.glyphs.half_bar:
        text = style.glyphs.bar * round(share * 10)
    return Cell(text, _nested(rows, i) or "accent")


def _split(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    split_ns = rows.groups.split_ns
    parts = None if split_ns is None else split_ns[rows.places[i]]
    loud = style.loud.get(rows.keys[i], ())
    drawn = bar(parts, glyphs=style.glyphs, letters=style.letters, most=style.split_cells, loud=loud)
    return Cell("", parts=drawn)


def _problem_time(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    ms = rows.lost_ms_per_s.get(rows.keys[i], 0.0)
    return duration_cell(1e6 * ms, style) if ms > 0.0 else BLANK


def _problem_time_values(rows: Grouped) -> Values:
    return np.array([rows.lost_ms_per_s.get(key, np.nan) for key in rows.keys], np.float64)


def _starved(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    split_ns = rows.groups.split_ns
    return duration_cell(None if split_ns is None else int(split_ns[rows.at[i], _STARVED].sum()), style)


def _starved_values(rows: Grouped) -> Values:
    split_ns = rows.groups.split_ns
    if split_ns is None:
        return np.full(len(rows), np.nan)
    return rows.of(split_ns[:, _STARVED].sum(axis=1))


def _errors(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    errors = int(rows.value("errors", i))
    return Cell(figures.count(errors, style.glyphs), "bright") if errors else Cell("")


def _bytes(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    moved = float(rows.value("bytes_per_s", i))
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


def _cpu(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return Cell(figures.percent(float(rows.cpu_percent[i]), style.glyphs))


def _cpu_values(rows: Grouped) -> Values:
    return rows.cpu_percent


def _rss(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return Cell(figures.memory(float(rows.rss_bytes[i]), style.glyphs))


def _rss_values(rows: Grouped) -> Values:
    return rows.rss_bytes


def _owner(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    """Return the user or namespace of the row; the first one and the number of others if it has several."""
    first, *others = rows.owners[i] or (figures.missing(1, style.glyphs),)
    return Cell(f"{first} +{len(others)}" if others else first, "dim")


def trend(past: NDArray[np.floating], *, glyphs: Glyphs = UNICODE, most: int = TREND_WINDOWS) -> str:
    """Draw the newest ``most`` of ``past`` as a sparkline, the newest at the right. NaN is a blank.

    The logarithmic scale goes from the least to the largest value, and covers at least a factor of two, so
    that small changes look flat.
    """
    newest: list[float] = past[-most:].tolist()
    logs = [math.log2(value) if 0 < value < math.inf else None for value in newest]
    known = [value for value in logs if value is not None]
    if not known:
        return " " * most
    low, levels = min(known), glyphs.trend_levels
    span = max(max(known) - low, 1.0)
    text = (
        " " if value is None else levels[round((value - low) / span * (len(levels) - 1))] for value in logs
    )
    return "".join(text).rjust(most)


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
    """Return the function that draws ``values``, each a p99 divided by another p99. The cell is coloured if
    the ratio is large and enough calls support it."""

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


CELLS: Final[Mapping[str, ColumnCells]] = {
    "beside": ColumnCells(_beside, always=True),
    "problem_time": ColumnCells(_problem_time, _problem_time_values, always=True),
    "calls": ColumnCells(_rate, _column("calls")),
    "p50": ColumnCells(_percentile(0, 2), _column("p50_ns")),
    "p95": ColumnCells(_percentile(1, 20), _column("p95_ns")),
    "p99": ColumnCells(_percentile(2, 100), _column("p99_ns")),
    "max": ColumnCells(_max, _column("max_ns")),
    "mean": ColumnCells(_mean, _mean_values),
    "total": ColumnCells(_total, total_values),
    "share": ColumnCells(_share),
    "bar": ColumnCells(_bar, uncounted=BLANK),
    "split": ColumnCells(_split),
    "starved": ColumnCells(_starved, _starved_values),
    "trend": ColumnCells(_trend, uncounted=BLANK),
    "change": ColumnCells(_against(_change_values), _change_values),
    "open": ColumnCells(_open, _open_values, always=True),
    "errors": ColumnCells(_errors, _column("errors"), uncounted=BLANK),
    "bytes": ColumnCells(_bytes, _column("bytes"), uncounted=BLANK),
    "n": ColumnCells(_count, uncounted=BLANK),
    "normal": ColumnCells(_against(_normal_values), _normal_values),
    "cpu": ColumnCells(_cpu, _cpu_values, always=True),
    "rss": ColumnCells(_rss, _rss_values, always=True),
    "gpu_memory": ColumnCells(_device_bytes, _device_bytes_values),
    "owner": ColumnCells(_owner, always=True),
    "procs": ColumnCells(_processes, _process_values, uncounted=BLANK),
    "device": ColumnCells(_devices, _device_values, uncounted=BLANK),
}
"""The cells of each of ``catalogue.COLUMNS``."""
