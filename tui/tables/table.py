"""Makes the content of a table from a window: groups, filters, unfolds and sorts its rows.

Cells are computed when they come into view. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import overload

import numpy as np
from numpy.typing import NDArray

from stalltop.model.rows.filter import Filter, parse
from stalltop.model.sharing.placing import held_bytes
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.window import SPLITS, Window
from stalltop.tui.columns.against import CELLS as MARK_CELLS
from stalltop.tui.columns.catalogue import BY_ID, MOST_SPLIT_CELLS, SPLIT_CELLS, Need
from stalltop.tui.columns.cells import ColumnCells, ColumnStyle, Values, cell
from stalltop.tui.columns.choice import columns
from stalltop.tui.columns.now import CELLS
from stalltop.tui.columns.split import legend
from stalltop.tui.tables.worst_first import WorstFirst
from stalltop.tui.views.groups import LONG_OPEN_NS, NOTHING_ADDED, AddedRow, Grouped, Key, grouped
from stalltop.tui.views.orders import WORST
from stalltop.tui.views.outermost import outermost_ns
from stalltop.tui.views.path import PathStep, decided, scope
from stalltop.tui.views.trends import NO_TRENDS, RowTrends
from stalltop.tui.views.view import Level, View, empty, title
from stalltop.widgets.table import Cell, Column, TableData, TableRow, TableRows

SMALL_SHARE = 0.05
"""While problems cost time, operations without a loss are shown only if they take this part of the time."""
INCOMPLETE = Cell("?", "warn")
"""Marks a row whose figures do not contain all of its calls."""
CULPRIT = "<"
"""Marks the row of a culprit, after the mark of what the row itself loses."""
LEGEND_FROM = 110
"""Least width in cells at which a table has room for a legend of all parts of a split."""
PICTURES = ("bar", "split", "trend")
"""Columns that are drawings. They are left out on slow connections."""
_CELLS = {**CELLS, **MARK_CELLS}


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One row of a table that may be a tree."""

    rows: Grouped
    i: int
    """The index of the row in ``rows``."""
    level: int

    @property
    def key(self) -> Key:
        """Return the key of the row."""
        return self.rows.keys[self.i]


class FlatRows(Sequence[TreeRow]):
    """The rows of a table that is no tree, in their order. Each is made when it is read: of a thousand rows a
    screen shows about forty."""

    def __init__(
        self, rows: Grouped, order: NDArray[np.int64], folded: int = 0, filling: tuple[int, int] = (0, 0)
    ) -> None:
        """``folded``: the number of rows that ``order`` leaves out because they repeat figures of others, or
        matter little. ``filling``: the number of rows that matter little which ``order`` has because there is
        room, and with those that it does not have."""
        self.rows = rows
        self.folded = folded
        self.filling = filling
        self.order: list[int] = order.tolist()

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, at: int) -> TreeRow: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[TreeRow]: ...

    def __getitem__(self, at: int | slice) -> TreeRow | Sequence[TreeRow]:
        """Return the row at a position, or the rows of a slice."""
        if isinstance(at, slice):
            return [TreeRow(self.rows, i, 0) for i in self.order[at]]
        return TreeRow(self.rows, self.order[at], 0)

    @property
    def keys(self) -> tuple[Key, ...]:
        """Return the keys of all rows."""
        return tuple(map(self.rows.keys.__getitem__, self.order))


def table(
    window: Window,
    view: View,
    *,
    width: int,
    glyphs: Glyphs = UNICODE,
    letters: bool = False,
    marks: Mapping[Key, Cell] = MappingProxyType({}),
    legend_shown: bool = False,
    against: Window | None = None,
    chosen: Sequence[str] = (),
    past: RowTrends = NO_TRENDS,
    pictures: bool = True,
    lost: Mapping[Key, float] = MappingProxyType({}),
    worst: WorstFirst | None = None,
    added: Mapping[Key, AddedRow] = NOTHING_ADDED,
    have: Collection[Need] | None = None,
    lines_free: int = 0,
    loud: Mapping[Key, Collection[str]] = MappingProxyType({}),
    present: Window | None = None,
) -> TableData:
    """Return the table of ``window`` that ``view`` describes, for ``width`` cells.

    Shares are parts of the time of all outermost calls below the view's path; a filter does not change them.
    ``letters``: draw parts of the time as letters and patterns, for terminals with few colours. ``marks``:
    marks of rows, by key. ``against``: the window to compare with. ``chosen``: ids of the columns; none: the
    usual ones. ``pictures``: include the columns that are drawings. ``lost``, ``worst``, ``added``,
    ``lines_free`` and ``present``: as in ``lines_of``. ``have``: the needs of columns that count as met;
    None: those that the data meets. ``loud``: the parts of the split that problems of a row are about, by its
    key.
    """
    have = available(window, against, past, loses=any(lost.values())) if have is None else have
    shown = columns(view.by, width, have, chosen, tree=view.is_tree, sort=view.sort)
    shown = tuple(column for column in shown if pictures or column.id not in PICTURES)
    ids = [column.id for column in shown[1:]]
    style = ColumnStyle(glyphs=glyphs, letters=letters, split_cells=_split_cells(shown, width), loud=loud)
    shown = tuple(
        replace(column, width=style.split_cells) if column.id == "split" else column for column in shown
    )
    cells = [_CELLS[name] for name in ids]
    sort = view.sort if view.sort in BY_ID else "total"  # "total", name and worst first need no past
    uses_past = any(BY_ID[name].needs == "past" for name in (*ids, sort))
    found = parse(view.filter)
    trends = past if uses_past else NO_TRENDS
    lines = lines_of(window, view, found, against, trends, marks, lost, worst, added, lines_free, present)
    folded, filling = (lines.folded, lines.filling) if isinstance(lines, FlatRows) else (0, (0, 0))
    return TableData(
        title(view, glyphs, folded, short=width < LEGEND_FROM),
        shown,
        drawn(lines, view, cells, style, found, marks),
        view.sort,
        view.descending,
        empty(window, view),
        legend(_parts(window, width), glyphs=glyphs, letters=letters)
        if legend_shown and _in_view("split", shown, width)
        else (),
        *filling,
    )


def _split_cells(shown: Sequence[Column], width: int) -> int:
    """Return the width of the column of split times: wider, if the columns ``shown`` would leave cells of
    ``width`` empty although the column of names is as wide as it may be."""
    names = shown[0]
    if not names.most:
        return SPLIT_CELLS
    free = width - 1 - sum(column.width + 1 for column in shown) - (names.most - names.width)
    return min(max(SPLIT_CELLS + free, SPLIT_CELLS), MOST_SPLIT_CELLS)


def _parts(window: Window, width: int) -> Collection[str]:
    """Return the parts of a split that the legend of a table of ``width`` cells explains: all of them, or in
    a narrow table those that fill a cell of a bar."""
    split_ns = window.rows.split_ns
    if width >= LEGEND_FROM or split_ns is None or not len(split_ns):
        return SPLITS
    whole_ns = np.maximum(split_ns.sum(axis=1, keepdims=True), 1)
    seen = (split_ns * np.uint64(SPLIT_CELLS) >= whole_ns).any(axis=0)
    return [name for name, is_seen in zip(SPLITS, seen, strict=True) if is_seen]


def _in_view(column: str, shown: Sequence[Column], width: int) -> bool:
    """Return whether ``column`` is visible if ``width`` cells show the columns ``shown``."""
    ends = 1
    for one in shown:
        ends += one.width + 1
        if one.id == column:
            return ends <= width
    return False


def available(
    window: Window, against: Window | None = None, past: RowTrends = NO_TRENDS, *, loses: bool = False
) -> set[Need]:
    """Return which needs of columns the data meets. ``loses``: problems cost time."""
    have: set[Need] = {"loss"} if loses else set()
    if window.rows.split_ns is not None:
        have.add("split")
    if past is not NO_TRENDS:
        have.add("past")
    if window.normals:
        have.add("baseline")
    if window.evidence.processes:
        have.add("use")
    owned = {name for name, tenant in window.tenants.items() if tenant.user or tenant.namespace}
    if owned and any(key.tenant in owned for key in window.rows.keys):
        have.add("owner")
    if any(held_bytes(window)):
        have.add("held")
    if window.rows.errors.any():
        have.add("errors")
    if any(call.age_ns >= LONG_OPEN_NS for call in window.open_calls):
        have.add("open")
    if against is not None:
        have.add("mark")
    return have


def drawn(
    lines: Sequence[TreeRow],
    view: View,
    cells: Sequence[ColumnCells],
    style: ColumnStyle,
    found: Filter,
    marks: Mapping[Key, Cell],
) -> TableRows:
    """Return ``lines`` as rows of a table: each has a name and a cell for each of ``cells``."""
    levels = view.levels()

    def made(at: int) -> TableRow:
        line = lines[at]
        rows, i, level = line.rows, line.i, levels[line.level]
        key, name = line.key, _name(line, view, level, found)
        if key in marks:
            name = name._replace(role="")  # a problem involves the row, so its name is not dim
        texts = (name, *(cell(one, rows, i, style) for one in cells))
        mark = marks.get(key) or (INCOMPLETE if key in rows.incomplete else None)
        found_guilty = rows.added.get(key)
        if found_guilty is None:
            return TableRow(key, texts, rows.labels[i][level.own], mark)
        culprit = Cell(CULPRIT, found_guilty.role)
        does = Cell(found_guilty.does, found_guilty.role)
        # A row with figures of its own says behind its name what it does, others in place of figures.
        told, across = (None, does) if rows.at[i] < 0 else (does, None)
        return TableRow(key, texts, rows.labels[i][level.own], mark, culprit, told, across)

    if isinstance(lines, FlatRows):
        flat = lines
        return TableRows(flat.keys, made, lambda seen: flat.rows.see(flat.order[seen.start : seen.stop]))
    return TableRows(tuple(line.key for line in lines), made)


def _name(line: TreeRow, view: View, level: Level, found: Filter) -> Cell:
    rows, i = line.rows, line.i
    label = rows.labels[i][level.own]
    counted = rows.places[i] >= 0
    nested = counted and bool(rows.value("nested", i))
    between = counted and bool(rows.value("between", i))
    text = f"({label})" if nested else label
    before = ""
    if view.is_tree:
        below = line.level + 1 < len(view.levels())
        sign = "- " if view.is_unfolded(line.key, line.level) else "+ "
        before = "  " * line.level + (sign if below else "  ")
    start = len(before) + nested
    spans = tuple((start + first, start + end) for first, end in found.spans(label, level.view.by))
    return Cell(before + text, "dim" if nested or between else "", found=spans)


def lines_of(
    window: Window,
    view: View,
    found: Filter,
    against: Window | None,
    past: RowTrends,
    marks: Mapping[Key, Cell],
    lost: Mapping[Key, float] = MappingProxyType({}),
    worst: WorstFirst | None = None,
    added: Mapping[Key, AddedRow] = NOTHING_ADDED,
    lines_free: int = 0,
    present: Window | None = None,
) -> Sequence[TreeRow]:
    """Return all rows in the order of ``view``; in a tree, children follow their parent.

    ``found`` is the filter of the view. Of ``marks`` only the keys are used: those rows have a mark. ``lost``
    is the time (ms/s) that rows lose through problems. ``worst`` remembers the order of earlier windows;
    None: rows are sorted by their figures in this window alone. ``added``: further rows of the first level,
    which follow the rows that lose time. ``present``: the newest part of ``window``. ``lines_free``: rows
    that matter little are shown up to this number of rows.
    """
    below = scope(window, view.path)
    whole_ns = outermost_ns(below)
    narrowed = found.apply(below)
    before = None if against is None else found.apply(scope(against, view.path))
    levels = view.levels()
    values_of = None if view.sort == "name" else _CELLS.get(view.sort, _CELLS["total"]).values
    lines: list[Sequence[TreeRow]] = []
    for number, level in enumerate(levels if view.is_tree else levels[:1]):
        if number and not any(view.is_unfolded(line.key, number - 1) for line in lines[-1]):
            break
        rows = grouped(
            *(narrowed, level.by),
            all_rows=decided(view.path),
            whole_ns=whole_ns,
            against=before,
            added=NOTHING_ADDED if number else added,
            nested=view.only not in ("", "busy") or bool(view.filter),
        )
        rows = replace(rows, lost_ms_per_s=lost, present=present)
        if past is not NO_TRENDS:
            rows = replace(rows, p99_past_ns=past.p99_ns(view, level.by, rows.keys))
        if view.sort == WORST and against is None:
            by_name = sorted_by(rows, None, descending=False, own=level.own)
            table_id = (view.path, view.filter, level.by)
            order = (worst or WorstFirst()).order(table_id, rows, lost, by_name)
            order = _added_after(rows, lost, order)
            order = order if view.descending else order[::-1]
        else:
            order = sorted_by(rows, values_of, view.descending, level.own)
        if view.sort in BY_ID and BY_ID[view.sort].of_calls:
            order = order[np.argsort(_marked(rows, rows.groups.between)[order], kind="stable")]
        if view.only in ("busy", "warned") and not (number and view.only == "warned"):
            order = order[_kept(rows, view, marks)[order]]
        folded, filling = 0, (0, 0)
        if level.view.by == "operation" and view.only in ("", "busy") and not view.filter:
            hidden = _repeated(rows, marks)[order]
            if view.sort == WORST and not view.only:
                small = np.flatnonzero(_small(rows, marks)[order] & ~hidden)
                shown = min(max(lines_free - int((~hidden).sum()) + len(small), 0), len(small))
                hidden[small[shown:]] = True
                filling = shown, len(small)
            folded, order = int(hidden.sum()), order[~hidden]
        if not view.is_tree:
            return FlatRows(rows, order, folded, filling)
        lines.append([TreeRow(rows, i, number) for i in order.tolist()])
    return _unfolded(lines, view, levels)


def _added_after(rows: Grouped, lost: Mapping[Key, float], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``order`` with the rows of culprits right after the first row that loses time."""
    if not rows.added:
        return order
    added = np.array([key in rows.added for key in rows.keys], np.bool_)
    loses = np.array([lost.get(key, 0.0) > 0.0 for key in rows.keys], np.bool_)
    if not loses.any():
        return order
    added &= ~loses
    others = order[~added[order]]
    place = int(np.flatnonzero(loses[others])[:1].max(initial=-1)) + 1
    return np.concatenate((others[:place], order[added[order]], others[place:]))


def _unfolded(lines: Sequence[Sequence[TreeRow]], view: View, levels: Sequence[Level]) -> list[TreeRow]:
    """Merge the sorted ``lines`` of all levels, so that children follow their parent."""
    children: dict[Key, list[TreeRow]] = {}
    for number, level in enumerate(lines[1:], 1):
        length = len(levels[number - 1].by)
        for line in level:
            children.setdefault(line.key[:length], []).append(line)
    result: list[TreeRow] = []

    def add(line: TreeRow) -> None:
        result.append(line)
        if view.is_unfolded(line.key, line.level):
            for child in children.get(line.key, ()):
                add(child)

    for line in lines[0]:
        add(line)
    return result


def _marked(rows: Grouped, of_groups: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return for each row the value of its group in ``of_groups``; False for a row that is in no group."""
    known = rows.at >= 0
    found = np.zeros(len(rows), np.bool_)
    found[known] = of_groups[rows.at[known]]
    return found


def _repeated(rows: Grouped, marks: Mapping[Key, Cell]) -> NDArray[np.bool_]:
    """Return for each row whether it repeats figures of other rows. A row with a long open call, or with a
    mark that no other row of calls has, does not: it shows something that the others do not show."""
    repeated = _marked(rows, rows.groups.repeated) & (rows.open_ns < LONG_OPEN_NS)
    if not marks or not repeated.any():
        return repeated
    calls = ~repeated & ~_marked(rows, rows.groups.between)
    told = {marks[rows.keys[i]].text for i in np.flatnonzero(calls).tolist() if rows.keys[i] in marks}
    for i in np.flatnonzero(repeated).tolist():
        mark = marks.get(rows.keys[i])
        repeated[i] = mark is None or mark.text in told
    return repeated


def _small(rows: Grouped, marks: Collection[Key]) -> NDArray[np.bool_]:
    """Return for each row whether it matters little while other rows lose time: it loses none, has no mark
    and no error, and its calls take less than ``SMALL_SHARE`` of the time."""
    lost = rows.lost_ms_per_s
    if not any(lost.get(key, 0.0) > 0.0 for key in rows.keys):
        return np.zeros(len(rows), np.bool_)
    plain = np.array([key not in marks and not lost.get(key) for key in rows.keys], np.bool_)
    plain &= ~_marked(rows, rows.groups.between) & (rows.open_ns < LONG_OPEN_NS)
    plain &= np.nan_to_num(rows.of(rows.groups.errors), nan=1.0) == 0
    total_ns = np.nan_to_num(rows.of(rows.groups.total_ns), nan=np.inf)
    return np.asarray(plain & (total_ns < SMALL_SHARE * rows.whole_ns))


def _kept(rows: Grouped, view: View, marks: Collection[Key]) -> NDArray[np.bool_]:
    """Return for each row whether ``view.only`` keeps it."""
    kept = rows.open_ns >= LONG_OPEN_NS
    kept |= np.array([key in rows.added for key in rows.keys], np.bool_)
    if view.only == "busy":
        return np.asarray(kept | (np.nan_to_num(rows.of(rows.groups.calls), nan=0.0) > 0))
    return np.asarray(kept | np.array([key in marks for key in rows.keys], np.bool_))


def sorted_by(
    rows: Grouped, values_of: Callable[[Grouped], Values] | None, descending: bool, own: int = 0
) -> NDArray[np.int64]:
    """Return the positions of ``rows`` sorted by values; equal values by name, so that rows do not jump.

    If ``values_of`` is None, rows are sorted by name: by their labels from number ``own`` on, because earlier
    labels are names of parents. NaN, an unknown value, comes last in both directions.
    """
    if not own and len(rows) == len(rows.groups):
        by_name = np.arange(len(rows))  # the groups are in the order of names already
    else:
        names = sorted(range(len(rows)), key=lambda i: (rows.labels[i][own:], rows.keys[i]))
        by_name = np.array(names, np.int64)
    if values_of is None:
        return by_name[::-1] if descending else by_name
    values = values_of(rows)[by_name]
    return by_name[np.argsort(-values if descending else values, kind="stable")]


def steps_to(data: TableData, view: View, key: Key) -> tuple[PathStep, ...]:
    """Return the path to the row ``key`` of ``data``, the table of ``view``, with the row as its last
    step."""
    steps = list(view.path)
    for level in view.levels()[: view.level_of(key) + 1]:
        at = data.find(key[: len(level.by)])
        label = key[level.own] if at is None else data.rows[at].label
        steps.append(PathStep(level.view.by, key[level.own], label))
    return tuple(steps)
