"""Columns that show two rows side by side: A is ``Grouped.before``, B is ``Grouped.groups``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from stalltop.model.rows.pivot import Groups
from stalltop.model.text import figures
from stalltop.tui.columns.cells import BLANK, ColumnCells, ColumnStyle, Values
from stalltop.tui.columns.split import bar
from stalltop.tui.views.groups import Grouped
from stalltop.widgets.drawing.magnitude import brightness
from stalltop.widgets.table import Cell, Role

Side = Literal["A", "B"]
FEW = 100
"""The least number of calls on a side for a reliable p99."""
MUCH = 2.0
"""If the larger of two p99 is at least this many times the smaller one, their ratio is coloured."""

_Column = Callable[[Groups], NDArray[np.integer] | NDArray[np.floating]]


def _values(side: Side, column: _Column) -> Callable[[Grouped], Values]:
    def values(rows: Grouped) -> Values:
        if side == "B":
            return rows.of(column(rows.groups))
        return rows.of_before(column(rows.before)) if rows.before is not None else np.full(len(rows), np.nan)

    return values


def _place(rows: Grouped, i: int, side: Side) -> tuple[Groups, int] | None:
    """Return the groups of one side, and the index of row ``i`` in these groups. Return None if the row has
    no call on that side."""
    if side == "B":
        return (rows.groups, int(rows.at[i])) if rows.at[i] >= 0 else None
    if rows.before is None or rows.before_at is None or rows.before_at[i] < 0:
        return None
    return rows.before, int(rows.before_at[i])


def _figure(
    side: Side, column: _Column, text: Callable[..., str], few: int = 0
) -> Callable[[Grouped, int, ColumnStyle], Cell]:
    """Return the function that draws a figure of one side. The cell is marked as unsure for fewer calls than
    ``few``."""

    def made(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
        place = _place(rows, i, side)
        if place is None:
            return Cell(figures.missing(1, style.glyphs), "dim")
        groups, at = place
        figure = float(column(groups)[at])
        role: Role = brightness(figure) if text is figures.duration else "text"
        return Cell(text(figure, style.glyphs), role, unsure=int(groups.calls[at]) < few)

    return made


def _p99(groups: Groups) -> NDArray[np.int64]:
    return groups.p99_ns


def _total(groups: Groups) -> NDArray[np.uint64]:
    return groups.total_ns


def _ratio_values(rows: Grouped) -> Values:
    a = _values("A", _p99)(rows)
    return _values("B", _p99)(rows) / np.where(a > 0, a, np.nan)


def _ratio(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    a, b = _place(rows, i, "A"), _place(rows, i, "B")
    if a is None or b is None or not _p99(a[0])[a[1]]:
        return Cell(figures.missing(1, style.glyphs), "dim")
    ratio = float(_p99(b[0])[b[1]]) / float(_p99(a[0])[a[1]])
    few = min(int(a[0].calls[a[1]]), int(b[0].calls[b[1]])) < FEW
    role: Role = "dim" if few else "warn" if ratio >= MUCH or ratio <= 1 / MUCH else ""
    return Cell(figures.rate(ratio, style.glyphs), role, unsure=few)


def _more_ns(rows: Grouped) -> Values:
    """Return how much more time (ns) B took than A in each row. A side without a call took no time."""
    a, b = _values("A", _total)(rows), _values("B", _total)(rows)
    return np.asarray(np.nan_to_num(b, nan=0.0) - np.nan_to_num(a, nan=0.0), np.float64)


def _distance(rows: Grouped) -> Values:
    return np.abs(_more_ns(rows))


def _more(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    a, b = _place(rows, i, "A"), _place(rows, i, "B")
    ns = (int(_total(b[0])[b[1]]) if b else 0) - (int(_total(a[0])[a[1]]) if a else 0)
    if not ns:
        return BLANK
    text = ("+" if ns > 0 else "-") + figures.duration(abs(ns), style.glyphs).strip()
    return Cell(text, brightness(abs(ns)))


def _both(name: str, column: _Column, text: Callable[..., str], few: int = 0) -> dict[str, ColumnCells]:
    """Return the columns with the same figure of both sides."""
    return {
        f"{name}_{side.lower()}": ColumnCells(
            _figure(side, column, text, few), _values(side, column), always=True
        )
        for side in _SIDES
    }


def _split(side: Side) -> Callable[[Grouped, int, ColumnStyle], Cell]:
    def made(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
        place = _place(rows, i, side)
        parts = place[0].split_ns[place[1]] if place is not None and place[0].split_ns is not None else None
        return Cell("", parts=bar(parts, glyphs=style.glyphs, letters=style.letters))

    return made


_SIDES: tuple[Side, Side] = ("A", "B")
CELLS: Final[Mapping[str, ColumnCells]] = {
    **_both("p99", _p99, figures.duration, FEW),
    "ratio": ColumnCells(_ratio, _ratio_values, always=True),
    "more": ColumnCells(_more, _distance, always=True),
    **{f"split_{side.lower()}": ColumnCells(_split(side), always=True) for side in _SIDES},
    **_both("total", _total, figures.duration),
    **_both("calls", lambda groups: groups.calls_per_s, figures.rate),
    **_both("p50", lambda groups: groups.p50_ns, figures.duration, 2),
    **_both("n", lambda groups: groups.calls, figures.count),
}
"""The cells of each of ``catalogue.PAIR_COLUMNS``."""
