"""What is looked at: how rows are grouped, narrowed and sorted. Pure functions from a window to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from model.filter import parse
from model.pivot import Dimension
from model.window import Window
from tui.columns.choice import BESIDE, BY_ID, WIDE, columns
from tui.columns.kind import Kind, Look, Need, cell
from tui.groups import Grouped, Key, Step, decided, grouped, outermost_ns, scope
from tui.split import legend
from widgets.table import Cell, Role, Rows, TableData, TableRow

PLURAL: dict[Dimension, str] = {
    "container": "containers",
    "namespace": "namespaces",
    "pod": "pods",
    "process": "processes",
    "operation": "operations",
    "layer": "layers",
    "host": "hosts",
}
"""What a table of groups is called."""

BELOW: tuple[Dimension, ...] = ("container", "operation", "process")
"""What Enter goes down to, in this order, leaving out what is decided already."""


@dataclass(frozen=True, slots=True)
class View:
    """How a window is looked at."""

    by: Dimension = "container"
    path: tuple[Step, ...] = ()
    sort: str = "total"
    descending: bool = True
    filter: str = ""

    def used(self) -> set[Dimension]:
        """Dimensions that are decided or shown."""
        return {self.by, *(step.dimension for step in self.path)}

    def below(self) -> Dimension | None:
        """What Enter shows next; None at the bottom."""
        used = self.used()
        if "process" in used or ("pod" in used and "container" in used):
            used |= {"container"}  # a process is in one container only
        return next((dimension for dimension in BELOW if dimension not in used), None)

    def entered(self, key: str, label: str) -> View:
        """The view inside the group ``key``; the same one where there is nothing below."""
        below = self.below()
        if below is None:
            return self
        return replace(self, by=below, path=(*self.path, Step(self.by, key, label)))

    def left(self) -> View:
        """The view one step up."""
        if not self.path:
            return self
        return replace(self, by=self.path[-1].dimension, path=self.path[:-1])

    def pivoted(self, by: Dimension) -> View:
        """The same rows grouped by ``by``; steps that decided it, and those after them, are taken back."""
        path = self.path
        for at, step in enumerate(path):
            if step.dimension == by:
                path = path[:at]
                break
        return replace(self, by=by, path=path)

    def beside(self) -> Dimension | None:
        """What a second table shows next to this one, if anything is left."""
        wanted: tuple[Dimension, ...] = ("operation", "container", "process")
        return next((dimension for dimension in wanted if dimension not in self.used()), None)

    def sorted_by(self, column: str) -> View:
        """Sorted by ``column``: names upwards, figures downwards; the same column again turns the order."""
        if column == self.sort:
            return replace(self, descending=not self.descending)
        return replace(self, sort=column, descending=column != "name")

    def next_sort(self, step: int, among: Sequence[str]) -> View:
        """Sorted by the next (1) or previous (-1) of the columns ``among``."""
        at = among.index(self.sort) if self.sort in among else 0
        column = among[(at + step) % len(among)]
        return replace(self, sort=column, descending=column != "name")


def title(view: View, *, unicode: bool) -> tuple[tuple[str, Role], ...]:
    """The way down to what is shown, and the filter."""
    arrow = " › " if unicode else " > "
    parts: list[tuple[str, Role]] = []
    for step in view.path:
        parts += [(PLURAL[step.dimension], "dim"), (arrow, "dim"), (step.label, "accent"), (arrow, "dim")]
    parts.append((PLURAL[view.by], "head"))
    if view.filter:
        error = parse(view.filter).error
        parts.append((f"   filter: {view.filter}", "warn"))
        if error:
            parts.append((f"   {error}", "bad"))
    return tuple(parts)


def table(
    window: Window,
    view: View,
    *,
    width: int,
    unicode: bool = True,
    letters: bool = False,
    marks: Mapping[Key, Cell] = MappingProxyType({}),
    legend_shown: bool = False,
    against: Window | None = None,
    chosen: Sequence[str] = (),
) -> TableData:
    """``window`` as ``view`` wants it, for a table of ``width`` cells.

    Shares are of the time of all outermost calls below the view's path: a filter does not change them.
    ``letters``: there are no colours to tell parts of the time apart by; ``marks``: of rows, by key;
    ``against``: the window to compare with; ``chosen``: ids of the columns, none for the usual ones.
    """
    rows = _rows(window, view, against)
    split = window.rows.split_ns is not None
    have: set[Need] = set()
    if split:
        have.add("split")
    if against is not None:
        have.add("baseline")
    shown = columns(view.by, width, have, chosen)
    look = Look(unicode=unicode, letters=letters)
    kinds = [BY_ID[column.id] for column in shown[1:]]
    order = _order(rows, view).tolist()

    def made(at: int) -> TableRow:
        i = order[at]
        return TableRow(
            rows.keys[i],
            (_name(rows, i), *(cell(kind, rows, i, look) for kind in kinds)),
            rows.labels[i][0],
            marks.get(rows.keys[i]) or _incomplete(rows, i),
        )

    return TableData(
        title(view, unicode=unicode),
        shown,
        Rows(tuple(rows.keys[i] for i in order), made),
        view.sort,
        view.descending,
        _empty(window, view),
        legend(letters=letters) if legend_shown and split and width >= WIDE else (),
    )


def _rows(window: Window, view: View, against: Window | None) -> Grouped:
    below = scope(window, view.path)
    found = parse(view.filter)
    return grouped(
        found.apply(below),
        BESIDE.get(view.by, (view.by,)),
        all_rows=decided(view.path),
        whole_ns=outermost_ns(below),
        against=None if against is None else found.apply(scope(against, view.path)),
    )


def _name(rows: Grouped, i: int) -> Cell:
    label, at = rows.labels[i][0], int(rows.at[i])
    return Cell(f"({label})", "dim") if at >= 0 and rows.groups.nested[at] else Cell(label)


INCOMPLETE = Cell("?", "warn")
"""Marks a row that lacks calls."""


def _incomplete(rows: Grouped, i: int) -> Cell | None:
    return INCOMPLETE if rows.keys[i] in rows.incomplete else None


def _order(rows: Grouped, view: View) -> NDArray[np.int64]:
    """Positions of the rows in the order of the view; equal ones by name, so that they do not jump."""
    by_name = np.array(sorted(range(len(rows)), key=lambda i: (rows.labels[i], rows.keys[i])), np.int64)
    if view.sort == "name":
        return by_name[::-1] if view.descending else by_name
    kind: Kind = BY_ID.get(view.sort, BY_ID["total"])
    assert kind.values is not None
    values = kind.values(rows)[by_name]
    # Whatever is not known comes last: it is NaN.
    return by_name[np.argsort(-values if view.descending else values, kind="stable")]


def _empty(window: Window, view: View) -> tuple[str, ...]:
    """What to say where there is no row."""
    if view.filter:
        return ("Nothing here matches the filter.", "Esc clears it, / changes it.")
    if view.path:
        return ("No calls here within this window.", "Esc goes back, + takes a longer window.")
    if window.coverage.tracing:
        return (f"Nothing is traced: {window.coverage.tracing}", "a: all that is known about it.")
    if not window.coverage.libraries:
        return (
            "No process here uses CUDA or NCCL now: none maps libcuda, libcudart or libnccl.",
            "One that starts is traced within a second. To see sample tenants: stalltop demo",
        )
    return (
        f"Traced, but no CUDA or NCCL call in this window of {window.seconds:.0f}s.",
        "+ takes a longer window; a: what is traced.",
    )
