"""Columns that compare a row with the same row in another window, ``Grouped.before``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stalltop.model.comparing.difference import ComparedSide, Difference
from stalltop.model.text import figures
from stalltop.tui.tables.columns.kind import ColumnStyle, Kind, Values
from stalltop.tui.tables.groups import Grouped
from stalltop.tui.tables.split import CELLS, bar
from stalltop.widgets.table import Cell, Role

MUCH = 0.1
"""The share of the whole change from which the loss of a row is coloured."""


_Side = Callable[[Difference], ComparedSide]


def _then(found: Difference) -> ComparedSide:
    return found.then


def _now(found: Difference) -> ComparedSide:
    return found.now


def _told(rows: Grouped) -> Difference:
    assert rows.difference is not None, "these columns are offered where there is something to compare with"
    return rows.difference


def _values(of: Callable[[Difference], Values]) -> Callable[[Grouped], Values]:
    """Return the values of ``of`` for sorting; NaN if there is no window to compare with."""

    def values(rows: Grouped) -> Values:
        return np.full(len(rows), np.nan) if rows.difference is None else of(rows.difference)

    return values


def _lost(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    """Return the signed time lost, or ``new`` or ``gone``. It is dim if chance can explain it."""
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
    much = bool(found.share[i] >= MUCH)  # False for NaN
    role: Role = "" if not much else "bad" if lost > 0 else "good"
    return Cell(text, role)


def _share(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    return Cell(figures.percent(100 * float(_told(rows).share[i]), style.glyphs), "dim")


def _duration(side: _Side, column: str, few: int) -> Callable[[Grouped, int, ColumnStyle], Cell]:
    """Return the function that draws a percentile in one window. The cell is dim for fewer calls than
    ``few``."""

    def made(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
        one = side(_told(rows))
        at = one.at[i]
        calls = int(one.groups.calls[at]) if at >= 0 else 0
        if not calls:
            return Cell(figures.missing(1, style.glyphs), "dim")
        ns = int(getattr(one.groups, column)[at])
        dim = side is _then or calls < few
        return Cell(figures.duration(ns, style.glyphs), "dim" if dim else "", unsure=calls < few)

    return made


def _ratio(name: str) -> Callable[[Grouped, int, ColumnStyle], Cell]:
    """Return the function that draws the ratio of a percentile in both windows. The cell is dim if chance can
    explain the ratio."""

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
    """Return the function that draws where the time went in one window."""

    def made(rows: Grouped, i: int, style: ColumnStyle) -> Cell:
        one = side(_told(rows))
        at, split_ns = one.at[i], one.groups.split_ns
        parts = None if at < 0 or split_ns is None else split_ns[at]
        return Cell("", parts=bar(parts, glyphs=style.glyphs, letters=style.letters))

    return made


def _column(side: _Side, name: str) -> Callable[[Grouped], Values]:
    return _values(lambda found: side(found).of(getattr(side(found).groups, name)))


def _kind(
    name: str,
    title: str,
    width: int,
    about: str,
    drawn: Callable[[Grouped, int, ColumnStyle], Cell],
    values: Callable[[Grouped], Values] | None = None,
    sort: str = "",
    *,
    right: bool = True,
) -> Kind:
    return Kind(name, title, width, about, drawn, values, sort, right, needs="baseline", always=True)


# fmt: off
KINDS: tuple[Kind, ...] = (
    _kind("lost", "LOST/S", 7, "time lost per second because calls take longer than then; dim: may be chance",
          _lost, _values(lambda found: found.weight)),
    _kind("lost_share", "SHARE", 5, "share of all time lost or gained since then", _share, sort="lost"),
    _kind("p99_was", "P99 WAS", 7, "p99 then",
          _duration(_then, "p99_ns", 100), _column(_then, "p99_ns")),
    _kind("p99_now", "NOW", 6, "p99 now; dim for fewer than 100 calls",
          _duration(_now, "p99_ns", 100), _column(_now, "p99_ns")),
    _kind("p99_ratio", "xP99", 5, "p99 now divided by then; dim: may be chance",
          _ratio("p99"), _values(lambda found: found.p99_ratio)),
    _kind("split_was", "SPLIT WAS", CELLS, "where the time went then", _split(_then), right=False),
    _kind("split_now", "NOW", CELLS, "where the time goes now", _split(_now), right=False),
    _kind("calls_was", "CALL/S WAS", 10, "calls per second then",
          _calls(_then), _values(lambda found: found.then.calls_per_s)),
    _kind("calls_now", "NOW", 6, "calls per second now",
          _calls(_now), _values(lambda found: found.now.calls_per_s)),
    _kind("p50_was", "P50 WAS", 7, "p50 then",
          _duration(_then, "p50_ns", 2), _column(_then, "p50_ns")),
    _kind("p50_now", "NOW", 6, "p50 now",
          _duration(_now, "p50_ns", 2), _column(_now, "p50_ns")),
    _kind("p50_ratio", "xP50", 5, "p50 now divided by then; dim: may be chance",
          _ratio("p50"), _values(lambda found: found.p50_ratio)),
)
# fmt: on
"""All these columns in the order in which they are shown and offered. Each has ``needs="baseline"``."""
