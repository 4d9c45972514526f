"""A table of groups as plain rows of figures as they were measured: what tables in files are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from rich.cells import cell_len

from stalltop.model.rows.pivot import Dimension, Groups, pivot
from stalltop.model.text import figures
from stalltop.model.text.style import BOLD, Style
from stalltop.model.window import SPLITS, Window

_LARGEST: Final = len("runqueue 99% ")
"""Columns of the terminal that one part of the time takes at most."""
_LEAST_COLUMNS: Final = 4
"""Figures that a printed table keeps before it says where the time went."""
_OTHERS: Final[tuple[tuple[tuple[Dimension, ...], str], ...]] = (
    (("container",), "containers"),
    (("operation", "layer"), "operations"),
    (("process", "container"), "processes"),
)
"""Tables of a whole window, and what the screen calls them."""


@dataclass(frozen=True, slots=True)
class SheetRow:
    """One group. A figure that is not known is None."""

    names: tuple[str, ...]
    """One for each dimension of the sheet."""
    own: int = 0
    """Which of ``names`` is the row's own; others say where it is."""
    inside: bool = False
    """Whether all its calls were made inside other traced calls, whose time holds theirs."""
    calls_per_s: float | None = None
    p50_ns: int | None = None
    p95_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None
    total_ns: int | None = None
    share: float | None = None
    """Of the time of all outermost calls that the sheet is about, 0 to 1."""
    open_ns: int | None = None
    """Age of the oldest call that has not returned."""
    errors: int | None = None
    bytes_per_s: float | None = None
    bytes: int | None = None
    calls: int | None = None
    """None where nothing returned: only an open call is there."""
    lost_ns_per_s: float | None = None
    """Compared with another moment: time lost a second to calls that take longer; negative: won."""
    calls_per_s_before: float | None = None
    p50_before_ns: int | None = None
    p99_before_ns: int | None = None
    p99_against_median: float | None = None
    """p99 against the median of the row's own in the windows before; None where those are few."""
    p99_against_normal: float | None = None
    """p99 against what was learned to be normal; None where nothing was."""
    processes: int | None = None
    """Those that made the calls; None where only the screen counts them."""
    split_ns: tuple[int, ...] | None = None
    """Where the time went, as ``model.window.SPLITS``; None where that was not measured."""

    @property
    def label(self) -> tuple[str, ...]:
        """Its names, its own in parentheses where its calls were made inside others."""
        names, own = self.names, self.own
        return (*names[:own], f"({names[own]})", *names[own + 1 :]) if self.inside else names


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: ``title`` says what is in it, ``by`` what its rows are."""

    title: str
    by: tuple[str, ...]
    rows: tuple[SheetRow, ...]
    compared_with: float | None = None
    """The moment that rows are compared with, Unix time in seconds; None where they are not."""


@dataclass(frozen=True, slots=True)
class SheetColumn:
    """A figure of every row."""

    field: str
    """Of ``SheetRow``: with its unit in the name, as the head of raw figures."""
    head: str
    """Of figures with units."""
    width: int
    """Columns of the terminal that it takes."""
    keep: int
    """Those with lower numbers stay longer where there is little room."""
    shown: Callable[[float | None, bool], str]
    """The figure with its unit; False: in ASCII."""
    compares: bool = False
    """Whether it is there only in comparison with another moment."""


COLUMNS: Final = (
    SheetColumn(
        "lost_ns_per_s", "lost/s", 7, 0, lambda value, unicode: _signed(value, unicode=unicode), True
    ),
    SheetColumn("calls_per_s", "call/s", 6, 1, lambda value, unicode: figures.rate(value, unicode=unicode)),
    SheetColumn(
        "calls_per_s_before", "was", 6, 5, lambda value, unicode: figures.rate(value, unicode=unicode), True
    ),
    SheetColumn("p50_ns", "p50", 6, 4, lambda value, unicode: figures.duration(value, unicode=unicode)),
    SheetColumn(
        "p50_before_ns", "was", 6, 6, lambda value, unicode: figures.duration(value, unicode=unicode), True
    ),
    SheetColumn("p95_ns", "p95", 6, 10, lambda value, unicode: figures.duration(value, unicode=unicode)),
    SheetColumn("p99_ns", "p99", 6, 2, lambda value, unicode: figures.duration(value, unicode=unicode)),
    SheetColumn(
        "p99_before_ns", "was", 6, 3, lambda value, unicode: figures.duration(value, unicode=unicode), True
    ),
    SheetColumn("max_ns", "max", 6, 8, lambda value, unicode: figures.duration(value, unicode=unicode)),
    SheetColumn("total_ns", "total", 6, 9, lambda value, unicode: figures.duration(value, unicode=unicode)),
    SheetColumn("share", "share", 5, 7, lambda value, unicode: _percent(value, unicode=unicode)),
    SheetColumn("open_ns", "open", 6, 11, lambda value, unicode: _unless_none(value, unicode=unicode)),
    SheetColumn("errors", "err", 5, 12, lambda value, unicode: figures.count(value, unicode=unicode)),
    SheetColumn("bytes_per_s", "bytes/s", 7, 13, lambda value, unicode: _moved(value, unicode=unicode)),
    SheetColumn("calls", "calls", 5, 14, lambda value, unicode: figures.count(value, unicode=unicode)),
)
"""Every figure but where the time went, in the order of the screen's tables."""


def columns_of(table: Sheet) -> list[SheetColumn]:
    """The columns of ``table``: those that compare only where it does."""
    return [column for column in COLUMNS if table.compared_with is not None or not column.compares]


def _signed(ns_per_s: float | None, *, unicode: bool) -> str:
    if ns_per_s is None:
        return figures.missing(1, unicode=unicode)
    text = figures.duration(abs(ns_per_s), unicode=unicode).strip()
    return text if text == "0ns" else ("+" if ns_per_s > 0 else "-") + text


def _percent(share: float | None, *, unicode: bool) -> str:
    return figures.percent(None if share is None else 100 * share, unicode=unicode)


def _unless_none(age_ns: float | None, *, unicode: bool) -> str:
    return figures.duration(age_ns, unicode=unicode) if age_ns else ""


def _moved(bytes_per_s: float | None, *, unicode: bool) -> str:
    return figures.size(bytes_per_s, unicode=unicode) if bytes_per_s != 0 else ""


def sheet(window: Window, by: Sequence[Dimension], title: str) -> Sheet:
    """All of ``window`` by some dimensions, the groups that took the most time first, the time between calls
    last."""
    groups = pivot(window, by)
    order = np.lexsort((groups.calls, groups.total_ns, ~groups.between))[::-1].tolist()
    return Sheet(title, tuple(by), tuple(row_of(groups, at) for at in order))


def others(window: Window, shown: Sheet | None) -> list[Sheet]:
    """Containers, operations and processes of the whole window: those of them that ``shown`` is not."""
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
    """Group ``at`` of ``groups``. ``names``: where they are other than its labels, its own at ``own``;
    ``open_ns``: age of its oldest open call; ``whole_ns``: what its share is of, where that is not all of
    the window."""
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
        # Time between calls is no part of their time.
        share=None if groups.between[at] else share,
        open_ns=open_ns or None,
        errors=int(groups.errors[at]),
        bytes_per_s=float(groups.bytes_per_s[at]),
        bytes=int(groups.bytes[at]),
        calls=int(groups.calls[at]),
        split_ns=None if groups.split_ns is None else tuple(groups.split_ns[at].tolist()),
    )


def parts(row: SheetRow) -> list[tuple[str, float]]:
    """Where the time of a row went: (part, 0 to 1), those that took any, in the order of ``SPLITS``."""
    whole = sum(row.split_ns or ())
    if not whole:
        return []
    return [(name, ns / whole) for name, ns in zip(SPLITS, row.split_ns or (), strict=True) if ns]


def largest(row: SheetRow, most: int = 2) -> str:
    """The parts that took the most, for a person: ``running 62% runqueue 30%``."""
    found = sorted(parts(row), key=lambda part: -part[1])[:most]
    return " ".join(f"{name} {100 * share:.0f}%" for name, share in found if share >= 0.005)


def sheet_lines(table: Sheet, style: Style) -> list[str]:
    """All rows for people, with the columns that there is room for; one with nothing in it is left out."""
    labels = [table.by, *(row.label for row in table.rows)]
    names = [max(cell_len(name) for name in column) for column in zip(*labels, strict=True)]
    shown = [column for column in columns_of(table) if any(getattr(row, column.field) for row in table.rows)]
    most = 2 if any(row.split_ns for row in table.rows) else 0

    def room() -> int:
        """For the names, each with a blank behind it."""
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
        # Names differ most at their ends: they are cut in the middle.
        cells = [
            figures.middle(figures.printable(name), wide, unicode=style.unicode)
            for name, wide in zip(label, names, strict=True)
        ]
        cells += [
            column.shown(getattr(row, column.field), style.unicode).rjust(column.width) for column in shown
        ]
        lines.append(" ".join([*cells, largest(row, most)]).rstrip())
    return lines
