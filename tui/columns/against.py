"""Columns that compare a row with the same row in another window, ``Grouped.before``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from stalltop.model.text import figures
from stalltop.tui.columns.cells import ColumnCells, ColumnStyle, Values, duration_cell
from stalltop.tui.columns.split import bar
from stalltop.tui.views.groups import Grouped
from stalltop.widgets.drawing.magnitude import brightness
from stalltop.widgets.table import Cell, Role

MUCH = 0.1
"""The time that a row lost or gained is coloured if it is at least this share of all time lost or gained."""


if TYPE_CHECKING:
    from stalltop.model.comparing.difference import ComparedSide, Difference

    _Side = Callable[[Difference], ComparedSide]


def _then(found: Difference) -> ComparedSide:
    return found.then


def _now(found: Difference) -> ComparedSide:
    return found.now


def _told(rows: Grouped) -> Difference:
    assert rows.difference is not None, "columns of comparisons need a window to compare with"
    return rows.difference


def _values(of: Callable[[Difference], Values]) -> Callable[[Grouped], Values]:
    """Return the function that computes the number by which each row is sorted. It returns ``of(difference)``
    for the difference of the two windows, or NaN if there is no window to compare with."""

    def values(rows: Grouped) -> Values:
        return np.full(len(rows), np.nan) if rows.difference is None else of(rows.difference)

    return values


def _lost(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    """Return the cell with the signed time lost, or ``new`` or ``gone``. The cell is dim if chance can
    explain the difference."""
    found = _told(rows)
    if found.new[i]:
        return Cell("new", "accent")
    if found.gone[i]:
        return Cell("gone", "label")
    lost = float(found.lost_ns_per_s[i])
    text = figures.duration(abs(lost), style.glyphs).strip()
    if text != "0ns":
        text = ("+" if lost > 0 else "-") + text
    if not found.changed[i]:
        return Cell(text, "dim", unsure=lost != 0)
    much = bool(found.share[i] >= MUCH)  # False if the share is NaN
    role: Role = brightness(abs(lost)) if not much else "bad" if lost > 0 else "good"
    return Cell(text, role)


def _share(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return Cell(figures.percent(100 * float(_told(rows).share[i]), style.glyphs), "dim")


def _duration(side: _Side, column: str, few: int) -> Callable[[Grouped, int, ColumnStyle], Cell]:
    """Return the function that draws a percentile in the window that ``side`` selects. The cell is marked as
    unsure for fewer calls than ``few``."""

    def made(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
        one = side(_told(rows))
        at = one.at[i]
        calls = int(one.groups.calls[at]) if at >= 0 else 0
        if not calls:
            return Cell(figures.missing(1, style.glyphs), "dim")
        return duration_cell(int(getattr(one.groups, column)[at]), style, unsure=calls < few)

    return made


def _ratio(name: str) -> Callable[[Grouped, int, ColumnStyle], Cell]:
    """Return the function that draws a ratio: a percentile in the window, divided by the same percentile in
    the window to compare with. The cell is dim if chance can explain the ratio."""

    def made(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
        found = _told(rows)
        ratio = float(getattr(found, f"{name}_ratio")[i])
        role: Role = "warn" if ratio >= 2 else ""
        sure = bool(getattr(found, f"{name}_sure")[i])
        return Cell(
            figures.rate(ratio, style.glyphs),
            role if sure else "dim",
            unsure=not sure and ratio == ratio,
        )

    return made


def _calls(side: _Side) -> Callable[[Grouped, int, ColumnStyle], Cell]:
    def made(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
        rate = float(side(_told(rows)).calls_per_s[i])
        return Cell(figures.rate(rate, style.glyphs), "dim" if side is _then else "")

    return made


def _split(side: _Side) -> Callable[[Grouped, int, ColumnStyle], Cell]:
    """Return the function that draws where the time went in the window that ``side`` selects."""

    def made(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
        one = side(_told(rows))
        at, split_ns = one.at[i], one.groups.split_ns
        parts = None if at < 0 or split_ns is None else split_ns[at]
        return Cell("", parts=bar(parts, glyphs=style.glyphs, letters=style.letters, most=style.split_cells))

    return made


def _column(side: _Side, name: str) -> Callable[[Grouped], Values]:
    return _values(lambda found: side(found).of(getattr(side(found).groups, name)))


def _cells(
    draw: Callable[[Grouped, int, ColumnStyle], Cell], values: Callable[[Grouped], Values] | None = None
) -> ColumnCells:
    return ColumnCells(draw, values, always=True)


CELLS: Final[Mapping[str, ColumnCells]] = {
    "lost": _cells(_lost, _values(lambda found: found.weight)),
    "lost_share": _cells(_share),
    "p99_was": _cells(_duration(_then, "p99_ns", 100), _column(_then, "p99_ns")),
    "p99_now": _cells(_duration(_now, "p99_ns", 100), _column(_now, "p99_ns")),
    "p99_ratio": _cells(_ratio("p99"), _values(lambda found: found.p99_ratio)),
    "split_was": _cells(_split(_then)),
    "split_now": _cells(_split(_now)),
    "calls_was": _cells(_calls(_then), _values(lambda found: found.then.calls_per_s)),
    "calls_now": _cells(_calls(_now), _values(lambda found: found.now.calls_per_s)),
    "p50_was": _cells(_duration(_then, "p50_ns", 2), _column(_then, "p50_ns")),
    "p50_now": _cells(_duration(_now, "p50_ns", 2), _column(_now, "p50_ns")),
    "p50_ratio": _cells(_ratio("p50"), _values(lambda found: found.p50_ratio)),
}
"""The cells of each of ``catalogue.MARK_COLUMNS``."""
