"""What is looked at: how rows are grouped, narrowed and sorted. Pure functions from a window to a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from model.filter import parse
from model.pivot import Dimension, Groups, part_of, pivot
from model.window import OpenCall, RowKey, Window
from outputs import figures
from tui.split import CELLS, bar, legend
from widgets.table import Cell, Column, Role, TableData, TableRow

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

BESIDE: dict[Dimension, tuple[Dimension, ...]] = {
    "operation": ("operation", "layer"),
    "process": ("process", "container"),
    "pod": ("pod", "namespace"),
}
"""Dimensions whose groups need a second one beside them to be told apart."""

BELOW: tuple[Dimension, ...] = ("container", "operation", "process")
"""What Enter goes down to, in this order, leaving out what is decided already."""

SORTS = ("name", "calls", "p50", "p95", "p99", "max", "total", "errors", "open", "bytes")
"""Columns that can be sorted by, in the order in which a key goes through them."""

LONG_OPEN_NS = 1_000_000_000
"""From this age on an open call is worth a warning."""
HUNG_NS = 10_000_000_000
"""From this age on it looks hung."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step down: rows of the group ``key`` of ``dimension`` only."""

    dimension: Dimension
    key: str
    label: str


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

    def next_sort(self, step: int) -> View:
        """Sorted by the next (1) or previous (-1) column."""
        at = SORTS.index(self.sort) if self.sort in SORTS else 0
        column = SORTS[(at + step) % len(SORTS)]
        return replace(self, sort=column, descending=column != "name")


def scope(window: Window, path: tuple[Step, ...]) -> Window:
    """The part of ``window`` below ``path``.

    Once an operation or a layer is chosen, calls made inside other calls stand for themselves: otherwise
    a driver function that is only ever called by the runtime would show nothing. See ``_decided``.
    """
    if not path:
        return window
    find = window.tenants.get

    def inside(key: RowKey) -> bool:
        return all(part_of(step.dimension, key, find(key.tenant))[0] == step.key for step in path)

    kept = np.fromiter((inside(key) for key in window.rows.keys), np.bool_, len(window.rows))
    rows = window.rows.take(np.flatnonzero(kept))
    open_calls = tuple(call for call in window.open_calls if inside(key_of(call, window)))
    if _decided(path):
        rows = replace(rows, keys=tuple(key._replace(nested=False) for key in rows.keys))
        open_calls = tuple(replace(call, nested=False) for call in open_calls)
    return replace(window, rows=rows, open_calls=open_calls)


def _decided(path: tuple[Step, ...]) -> bool:
    """Whether one operation or layer is looked at: its rows then all count, time between calls as well."""
    return any(step.dimension in ("operation", "layer") for step in path)


def key_of(call: OpenCall, window: Window) -> RowKey:
    """The row that ``call`` will be counted in."""
    return RowKey(window.host, call.tenant, call.pid, call.process, call.layer, call.operation, call.nested)


def outermost_ns(window: Window) -> int:
    """Time in calls of ``window`` that are not inside others, ns; the time between calls is left out."""
    outermost = np.fromiter((key.outermost for key in window.rows.keys), np.bool_, len(window.rows))
    return int(window.rows.total_ns[outermost].sum())


def calls_per_s(window: Window) -> float:
    """Outermost calls per second: a runtime call with the driver call inside it counts once."""
    outermost = np.fromiter((key.outermost for key in window.rows.keys), np.bool_, len(window.rows))
    return float(window.rows.calls[outermost].sum()) / (window.seconds or 1.0)


@dataclass(frozen=True, slots=True)
class _Shown:
    """Groups of a window with what is known besides counts."""

    keys: tuple[tuple[str, ...], ...]
    labels: tuple[tuple[str, ...], ...]
    groups: Groups
    at: tuple[int, ...]
    """Index into ``groups`` of each key, -1 where nothing was counted: only an open call is there."""
    open_ns: NDArray[np.int64]
    """Age of the group's oldest open call, 0 without one."""
    waited_ns: NDArray[np.int64]
    """Time within the window that long open calls of the group have taken so far, all threads together."""


def _grouped(window: Window, by: tuple[Dimension, ...], all_rows: bool) -> _Shown:
    """Groups of the rows and of the calls still open: a call that hangs has no row and must be seen."""
    groups = pivot(window, by, all_rows=all_rows)
    ages: dict[tuple[str, ...], int] = {}
    waited: dict[tuple[str, ...], int] = {}
    labels = dict(zip(groups.keys, groups.labels, strict=True))
    everything = "operation" in by or "layer" in by
    for call in window.open_calls:
        if call.ended or (call.nested and not everything):
            continue
        key = key_of(call, window)
        parts = [part_of(dimension, key, window.tenants.get(key.tenant)) for dimension in by]
        name = tuple(part[0] for part in parts)
        if name not in labels:
            if call.age_ns < LONG_OPEN_NS:
                continue  # it will be counted in a moment; rows that come and go are no help
            labels[name] = tuple(part[1] for part in parts)
        ages[name] = max(ages.get(name, 0), call.age_ns)
        if call.age_ns >= LONG_OPEN_NS:
            waited[name] = waited.get(name, 0) + min(call.age_ns, int(window.seconds * 1e9))
    index = {key: at for at, key in enumerate(groups.keys)}
    return _Shown(
        keys=tuple(labels),
        labels=tuple(labels.values()),
        groups=groups,
        at=tuple(index.get(key, -1) for key in labels),
        open_ns=np.array([ages.get(key, 0) for key in labels], np.int64),
        waited_ns=np.array([waited.get(key, 0) for key in labels], np.int64),
    )


def _order(shown: _Shown, view: View) -> list[int]:
    """Positions of the groups in the order of the view; equal ones by name, so that they do not jump."""
    by_name = sorted(range(len(shown.keys)), key=lambda i: (shown.labels[i], shown.keys[i]))
    if view.sort == "name":
        return by_name[::-1] if view.descending else by_name
    groups = shown.groups
    figures_of: dict[str, NDArray[np.integer] | NDArray[np.floating]] = {
        "calls": groups.calls,
        "p50": groups.p50_ns,
        "p95": groups.p95_ns,
        "p99": groups.p99_ns,
        "max": groups.max_ns,
        "errors": groups.errors,
        "bytes": groups.bytes,
    }
    column = figures_of.get(view.sort, groups.total_ns)
    if view.sort == "open":
        values = [int(age) for age in shown.open_ns]
    else:
        values = [int(column[at]) if at >= 0 else -1 for at in shown.at]
    if view.sort == "total":
        # A call that hangs takes time too, though nothing of it is counted before it returns.
        values = [max(value, 0) + int(waited) for value, waited in zip(values, shown.waited_ns, strict=True)]
    return sorted(by_name, key=lambda i: values[i], reverse=view.descending)


def _columns(by: Dimension, width: int, split: bool) -> tuple[Column, ...]:
    """The columns of a table by ``by`` on ``width`` cells: what matters most comes first."""
    first = Column(
        "name", by.upper(), {"container": 17, "layer": 17}.get(by, 21), right=False, fixed=True, most=44
    )
    second: tuple[Column, ...] = ()
    if by in BESIDE:
        other = BESIDE[by][1]
        second = (Column("beside", other.upper(), 7 if other == "layer" else 18, right=False),)
    middle = (
        Column("calls", "CALL/S", 6),
        Column("p50", "P50", 6),
        Column("p95", "P95", 6),
        Column("p99", "P99", 6),
        Column("max", "MAX", 6),
        Column("total", "TOTAL", 6),
        Column("share", "SHARE", 5),
    )
    last = (
        Column("open", "OPEN", 6),  # what hangs must be seen on 80 cells too
        Column("errors", "ERR", 5),
        Column("bytes", "BYTES/S", 7),
        Column("n", "CALLS", 6),
    )
    parts = (Column("split", "SPLIT", CELLS, right=False),) if split else ()
    if width >= 110:
        # A container beside leaves no room for bars on 120 cells.
        roomy = width >= (150 if split else 130 if by == "process" else 110)
        drawn = (Column("bar", "", 10, right=False),) if roomy else ()
        return (first, *second, *middle, *drawn, *parts, *last)
    return (first, *middle, *last[:2], *parts, *second, *last[2:])


def _bar(share: float, *, unicode: bool) -> str:
    """``share`` (0 to 1) as a bar of up to ten cells, in half cells where the characters allow it."""
    share = min(max(share, 0.0), 1.0) if share == share else 0.0
    if not unicode:
        return "#" * round(share * 10)
    halves = round(share * 20)
    return "━" * (halves // 2) + "╸" * (halves % 2)


def _cells(shown: _Shown, i: int, whole_ns: int, *, unicode: bool, letters: bool) -> dict[str, Cell]:
    """Every figure of one group."""
    groups, at = shown.groups, shown.at[i]
    labels = shown.labels[i]
    age = int(shown.open_ns[i])
    role: Role = "bad" if age >= HUNG_NS else "warn" if age >= LONG_OPEN_NS else "dim"
    inside = at >= 0 and bool(groups.nested[at])
    cells = {
        "name": Cell(f"({labels[0]})", "dim") if inside else Cell(labels[0]),
        "beside": Cell(labels[1] if len(labels) > 1 else "", "dim"),
        "open": Cell(figures.duration(age, unicode=unicode) if age else "", role),
    }
    if at < 0:
        dash = Cell(figures.missing(1, unicode=unicode), "dim")
        return {
            **dict.fromkeys(("calls", "p50", "p95", "p99", "max", "total", "share", "split"), dash),
            **cells,
        }
    calls, errors = int(groups.calls[at]), int(groups.errors[at])
    nested: Role = "dim" if inside else ""
    duration: Callable[[int], str] = lambda ns: figures.duration(int(ns), unicode=unicode)  # noqa: E731
    # Time between calls is no part of their time.
    share = float("nan") if groups.between[at] else int(groups.total_ns[at]) / whole_ns if whole_ns else 0.0
    moved = float(groups.bytes_per_s[at])
    parts = None if groups.split_ns is None else groups.split_ns[at]
    return {
        **cells,
        "calls": Cell(figures.rate(float(groups.calls_per_s[at]), unicode=unicode)),
        "p50": Cell(duration(groups.p50_ns[at])),
        # A percentile that rests on less than one call beyond it says little: it is dimmed.
        "p95": Cell(duration(groups.p95_ns[at]), "dim" if calls < 20 else ""),
        "p99": Cell(duration(groups.p99_ns[at]), "dim" if calls < 100 else ""),
        "max": Cell(duration(groups.max_ns[at])),
        "total": Cell(duration(groups.total_ns[at]), nested),
        "share": Cell(figures.percent(100 * share, unicode=unicode), nested),
        "bar": Cell(_bar(share, unicode=unicode), nested or "accent"),
        "split": Cell("", parts=bar(parts, unicode=unicode, letters=letters)),
        "errors": Cell(figures.count(errors, unicode=unicode), "bad" if errors else "dim"),
        "bytes": Cell(figures.size(moved, unicode=unicode) if moved else "", ""),
        "n": Cell(figures.count(calls, unicode=unicode), "dim"),
    }


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
    marks: Mapping[tuple[str, ...], Cell] = MappingProxyType({}),
    legend_shown: bool = False,
) -> TableData:
    """``window`` as ``view`` wants it, for a table of ``width`` cells.

    Shares are of the time of all outermost calls below the view's path: a filter does not change them.
    ``letters``: there are no colours to tell parts of the time apart by; ``marks``: of rows, by key.
    """
    below = scope(window, view.path)
    whole_ns = outermost_ns(below)
    by = BESIDE.get(view.by, (view.by,))
    shown = _grouped(parse(view.filter).apply(below), by, _decided(view.path))
    split = window.rows.split_ns is not None
    columns = _columns(view.by, width, split)
    blank = Cell("")
    rows = []
    for i in _order(shown, view):
        cells = _cells(shown, i, whole_ns, unicode=unicode, letters=letters)
        shown_cells = tuple(cells.get(column.id, blank) for column in columns)
        key = shown.keys[i]
        rows.append(TableRow(key, shown_cells, shown.labels[i][0], marks.get(key)))
    return TableData(
        title(view, unicode=unicode),
        columns,
        tuple(rows),
        view.sort,
        view.descending,
        _empty(window, view),
        legend(letters=letters) if legend_shown and split and width >= 110 else (),
    )


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
