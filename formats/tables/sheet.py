"""Makes sheets. A sheet is a table with a row for each group of operations, and with unrounded figures. Text,
HTML and CSV are made from sheets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from rich.cells import cell_len

from stalltop.model.rows.dimensions import Dimension
from stalltop.model.rows.pivot import Groups, pivot
from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.text.style import BOLD, Style
from stalltop.model.window import SPLITS, PartName, Window

_LARGEST: Final = len("runqueue 99% ")
"""Largest width of one part of the time, in cells."""
_LEAST_COLUMNS: Final = 4
"""If a printed table is too wide, columns are dropped until only this many are left. If it is still too wide,
the parts of the time are dropped."""
_OTHERS: Final[tuple[tuple[tuple[Dimension, ...], str], ...]] = (
    (("container",), "containers"),
    (("operation", "layer"), "operations"),
    (("process", "container"), "processes"),
)
"""Dimensions and title of each table of a whole window. The titles are those of the screen."""


@dataclass(frozen=True, slots=True)
class SheetRow:
    """The figures of one group. A figure that is not known is None."""

    names: tuple[str, ...]
    """A name for each dimension of the sheet."""
    own: int = 0
    """Index in ``names`` of the row's own name; the other names are those of the rows above it in the
    tree."""
    inside: bool = False
    """Whether all calls of the row were made inside other traced calls. The time of those calls includes that
    of the row."""
    calls_per_s: float | None = None
    p50_ns: int | None = None
    p95_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None
    total_ns: int | None = None
    share: float | None = None
    """Share of the row in the time of all outermost calls of the sheet, 0 to 1."""
    open_ns: int | None = None
    """Age of the oldest open call, ns; None if no call is open."""
    errors: int | None = None
    bytes_per_s: float | None = None
    bytes: int | None = None
    calls: int | None = None
    """Number of calls that returned; None if none did, so that the row has open calls only."""
    lost_ns_per_s: float | None = None
    """In sheets that compare two moments: time that is lost per second because calls take longer than at the
    other moment. Negative if calls take less time."""
    calls_per_s_before: float | None = None
    p50_before_ns: int | None = None
    p99_before_ns: int | None = None
    p99_against_median: float | None = None
    """p99 divided by the median of the row's p99 values in earlier windows; None if there are too few earlier
    windows."""
    p99_against_normal: float | None = None
    """p99 divided by the p99 of the baseline; None if there is no baseline."""
    processes: int | None = None
    """Number of processes that made the calls; None in sheets that were not made for the screen."""
    split_ns: tuple[int, ...] | None = None
    """Time in ns by part, in the order of ``model.window.SPLITS``; None if the parts were not measured."""

    @property
    def label(self) -> tuple[str, ...]:
        """``names``, with the row's own name in parentheses if its calls were made inside other calls."""
        names, own = self.names, self.own
        return (*names[:own], f"({names[own]})", *names[own + 1 :]) if self.inside else names


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of figures. Its rows are grouped by the dimensions ``by``."""

    title: str
    by: tuple[str, ...]
    rows: tuple[SheetRow, ...]
    compared_with: float | None = None
    """The moment with which the rows are compared, Unix seconds; None if they are not compared."""


@dataclass(frozen=True, slots=True)
class SheetColumn:
    """A column of a sheet."""

    field: str
    """The field of ``SheetRow``. Its name is also the head of the column in files with raw figures."""
    head: str
    """The head of the column in tables whose figures have units."""
    width: int
    """Width in cells."""
    keep: int
    """Columns with higher numbers are dropped first if a table has too little room."""
    shown: Callable[[float | None, Glyphs], str]
    """Returns the figure with its unit."""
    compares: bool = False
    """Whether the column exists only in sheets that compare two moments."""


def _signed(ns_per_s: float | None, glyphs: Glyphs) -> str:
    if ns_per_s is None:
        return figures.missing(1, glyphs)
    text = figures.duration(abs(ns_per_s), glyphs).strip()
    return text if text == "0ns" else ("+" if ns_per_s > 0 else "-") + text


def _percent(share: float | None, glyphs: Glyphs) -> str:
    return figures.percent(None if share is None else 100 * share, glyphs)


def _unless_none(age_ns: float | None, glyphs: Glyphs) -> str:
    return figures.duration(age_ns, glyphs) if age_ns else ""


def _moved(bytes_per_s: float | None, glyphs: Glyphs) -> str:
    return figures.size(bytes_per_s, glyphs) if bytes_per_s != 0 else ""


COLUMNS: Final = (
    SheetColumn("lost_ns_per_s", "lost/s", 7, 0, _signed, True),
    SheetColumn("calls_per_s", "call/s", 6, 1, figures.rate),
    SheetColumn("calls_per_s_before", "was", 6, 5, figures.rate, True),
    SheetColumn("p50_ns", "p50", 6, 4, figures.duration),
    SheetColumn("p50_before_ns", "was", 6, 6, figures.duration, True),
    SheetColumn("p95_ns", "p95", 6, 10, figures.duration),
    SheetColumn("p99_ns", "p99", 6, 2, figures.duration),
    SheetColumn("p99_before_ns", "was", 6, 3, figures.duration, True),
    SheetColumn("max_ns", "max", 6, 8, figures.duration),
    SheetColumn("total_ns", "total", 6, 9, figures.duration),
    SheetColumn("share", "share", 5, 7, _percent),
    SheetColumn("open_ns", "open", 6, 11, _unless_none),
    SheetColumn("errors", "err", 5, 12, figures.count),
    SheetColumn("bytes_per_s", "bytes/s", 7, 13, _moved),
    SheetColumn("calls", "calls", 5, 14, figures.count),
)
"""All columns but the parts of the time, in the order of the screen's tables."""


def columns_of(table: Sheet) -> list[SheetColumn]:
    """Return the columns of ``table``. Columns that compare two moments are included only if ``table``
    compares two moments."""
    return [column for column in COLUMNS if table.compared_with is not None or not column.compares]


def sheet(window: Window, by: Sequence[Dimension], title: str) -> Sheet:
    """Return a sheet with all rows of ``window``, grouped by the dimensions ``by``. Groups with the most time
    come first; the time between calls comes last."""
    groups = pivot(window, by)
    order = np.lexsort((groups.calls, groups.total_ns, ~groups.between))[::-1].tolist()
    return Sheet(title, tuple(by), tuple(row_of(groups, at) for at in order))


def others(window: Window, shown: Sheet | None) -> list[Sheet]:
    """Return sheets of the containers, operations and processes of the whole window. Leaves out the sheet
    that has the dimensions and the title of ``shown``."""
    return [
        sheet(window, by, f"{title}, whole host")
        for by, title in _OTHERS
        if shown is None or (shown.by, shown.title) != (by, title)
    ]


def row_of(
    groups: Groups,
    at: int,
    *,
    names: tuple[str, ...] = (),
    own: int = 0,
    open_ns: int = 0,
    whole_ns: int | None = None,
) -> SheetRow:
    """Return group number ``at`` of ``groups`` as a row.

    ``names`` replaces the labels of the group; ``own`` is the index of the row's own name in ``names``.
    ``open_ns`` is the age of the oldest open call. ``whole_ns`` is the time of which ``share`` is a part; by
    default, it is the time of all outermost calls of the window.
    """
    share = float(groups.share[at])
    if whole_ns is not None:
        share = int(groups.total_ns[at]) / whole_ns if whole_ns else 0.0
    counted = bool(groups.calls[at])
    p50, p95, p99 = (int(value) if counted else None for value in groups.percentiles_ns[at])
    return SheetRow(
        names=names or groups.labels[at],
        own=own,
        inside=bool(groups.nested[at]),
        calls_per_s=float(groups.calls_per_s[at]),
        p50_ns=p50,
        p95_ns=p95,
        p99_ns=p99,
        max_ns=int(groups.max_ns[at]),
        total_ns=int(groups.total_ns[at]),
        # The time between calls is not part of the time of calls, so it has no share.
        share=None if groups.between[at] else share,
        open_ns=open_ns or None,
        errors=int(groups.errors[at]),
        bytes_per_s=float(groups.bytes_per_s[at]),
        bytes=int(groups.bytes[at]),
        calls=int(groups.calls[at]),
        split_ns=None if groups.split_ns is None else tuple(groups.split_ns[at].tolist()),
    )


def parts(row: SheetRow) -> list[tuple[PartName, float]]:
    """Return the parts of a row's time that are not 0, as (name, share from 0 to 1) in the order of
    ``SPLITS``."""
    whole = sum(row.split_ns or ())
    if not whole:
        return []
    return [(name, ns / whole) for name, ns in zip(SPLITS, row.split_ns or (), strict=True) if ns]


def largest(row: SheetRow, most: int = 2) -> str:
    """Return the ``most`` largest parts of a row's time as text: ``running 62% runqueue 30%``."""
    found = sorted(parts(row), key=lambda part: -part[1])[:most]
    return " ".join(f"{name} {100 * share:.0f}%" for name, share in found if share >= 0.005)


def sheet_lines(table: Sheet, style: Style) -> list[str]:
    """Return all rows as lines of text, with the columns for which there is room. Columns whose figures are
    all 0 or not known are left out."""
    labels = [table.by, *(row.label for row in table.rows)]
    names = [max(cell_len(name) for name in column) for column in zip(*labels, strict=True)]
    shown = [column for column in columns_of(table) if any(getattr(row, column.field) for row in table.rows)]
    most = 2 if any(row.split_ns for row in table.rows) else 0

    def room() -> int:
        """Return how many cells are left for the names, each with a blank behind it."""
        return style.width - sum(column.width + 1 for column in shown) + 1 - _LARGEST * most

    wanted = min(sum(names) + len(names), style.width * 2 // 5)
    while room() < wanted and (len(shown) > _LEAST_COLUMNS or most):
        if len(shown) > _LEAST_COLUMNS:
            shown.remove(max(shown, key=lambda column: column.keep))
        else:
            most -= 1
    while sum(names) + len(names) > room() and max(names) > 1:
        names[names.index(max(names))] -= 1
    heads = [style.fit(name, wide) for name, wide in zip(table.by, names, strict=True)]
    heads += [column.head.rjust(column.width) for column in shown]
    lines = [style.paint(" ".join([*heads, "time went to"] if most else heads).rstrip(), BOLD)]
    for row, label in zip(table.rows, labels[1:], strict=True):
        # Long names are cut in the middle, because they mostly differ at their ends.
        cells = [
            figures.middle(figures.printable(name), wide, style.glyphs)
            for name, wide in zip(label, names, strict=True)
        ]
        cells += [
            column.shown(getattr(row, column.field), style.glyphs).rjust(column.width) for column in shown
        ]
        lines.append(" ".join([*cells, largest(row, most)]).rstrip())
    return lines
