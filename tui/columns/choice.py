"""Decides which columns a table has: the usual ones for its width, and the ones that a user may choose."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stalltop.model.rows.dimensions import Dimension
from stalltop.tui.columns.catalogue import (
    BY_ID,
    COLUMNS,
    IDS,
    MARK_COLUMNS,
    Need,
    TableColumn,
    Usual,
)
from stalltop.tui.views.view import BESIDE
from stalltop.widgets.table import Column

WIDE = 110
"""Least width in cells at which a table has only columns that fit. A narrower table also has columns to which
the user scrolls."""
NAME_CELLS = 21
"""Width in cells of the column of names. Most names fit into it."""
TREE_CELLS = 23
"""Width in cells of the column of names in a tree. A terminal of 80 cells then still shows the column
OPEN."""
WIDER = 170
"""Least width in cells at which a table also shows how its rows change."""
ROOMY = 150
"""Least width in cells at which a table has room for long names of containers beside processes."""
OF_TENANTS: frozenset[Dimension] = frozenset({"container", "namespace", "pod", "process", "host"})
"""Dimensions whose rows are tenants or processes, which use resources of the host."""
BESIDE_CELLS = 13
"""Width in cells of the container of a process, or the namespace of a pod, in a table narrower than
``ROOMY``."""
_ENDS_DIFFER: frozenset[Dimension] = frozenset({"process", "pod"})
"""Dimensions whose names end with what tells them apart: a PID, or the id of a pod."""
_SPARED = ("p50", "p95", "max")
"""Columns that tables of tenants and processes narrower than ``WIDER`` do not have: they say little about
calls of many operations."""
_SPARED_NARROW = ("p50", "p95", "max")
"""The same, in all tables of tenants and processes narrower than ``WIDE``: these columns come after those of
resources. The calls of a tenant are of many operations, so that their median says little."""
_LEFT_OUT = ("p95", "share", "max", "errors", "p50")
"""The columns that a table without room for all leaves out, the first one first."""


def defaults(by: Dimension, width: int, have: Collection[Need] = ()) -> tuple[str, ...]:
    """Return the ids of the usual columns of a table grouped ``by`` on ``width`` cells, the most important
    first.

    ``have`` lists the needs of columns that the data meets.
    """
    if "mark" in have:
        named = ("beside",) if by == "process" else ()
        return (*named, *(column.id for column in MARK_COLUMNS))

    def usual(*when: Usual) -> tuple[str, ...]:
        return offered([one.id for one in COLUMNS if one.usual in when and _tells(one.id, by, have)], have)

    first = usual("first", "changes") if width >= WIDER else usual("first")
    last, more = usual("last"), usual("normal")
    if by in OF_TENANTS:
        more += usual("resources")
    if "beside" in last and (by == "process" or width >= WIDE):
        # Processes of one name run in many containers: their container is always in view.
        first, last = ("beside", *first), tuple(one for one in last if one != "beside")
    if width >= WIDER:
        return _within((*first, *more, *last, *usual("wider")), by, width)
    if width < WIDE:
        if by in OF_TENANTS:
            # Of the time in calls, what problems take of it tells more.
            spared = (*_SPARED_NARROW, *(("total",) if "loss" in have else ()))
            first = tuple(one for one in first if one not in spared)
            last = (*last, *spared)
        elif "beside" in last:
            more = ("beside", *more)  # operations of one name belong to several layers
        fitting, spare = _fitting(first, by, width)
        return tuple(dict.fromkeys((*fitting, *more, *spare, *last)))
    if by in OF_TENANTS and width < WIDER:
        first = tuple(one for one in first if one not in _SPARED)
    # Shorter names leave room for the trend.
    trend = offered(("trend",), have) if name_cells(by) < NAME_CELLS and by not in OF_TENANTS else ()
    return _within((*first, *more, *last, *trend), by, width)


def _within(ids: Sequence[str], by: Dimension, width: int) -> tuple[str, ...]:
    """Return those of ``ids`` that fit beside the names, the first ones first."""
    room, kept = width - 1 - name_cells(by) - 1, list[str]()
    for one in ids:
        cells = _column(BY_ID[one], by, width).width + 1
        if cells <= room:
            kept.append(one)
            room -= cells
    return tuple(kept)


def _tells(name: str, by: Dimension, have: Collection[Need]) -> bool:
    """Return whether the column ``name`` adds something to the others in a table grouped ``by``."""
    if name == "beside":
        return by in BESIDE
    if name == "share":
        return by not in OF_TENANTS
    if name == "change":
        return "baseline" not in have
    return (name, by) not in (("procs", "process"), ("device", "device"))


def _fitting(ids: Sequence[str], by: Dimension, width: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Divide ``ids`` into those that fit on ``width`` cells and the others. The least important ones are left
    out first: 80 cells must show where the time went and which calls hang."""
    first, last = list(ids), list[str]()
    beside = BY_ID["beside"].width - BESIDE_CELLS if by == "process" else 0
    for one in _LEFT_OUT:
        if 2 + name_cells(by) - beside + sum(BY_ID[name].width + 1 for name in first) <= width:
            break
        if one in first:
            first.remove(one)
            last.insert(0, one)
    return tuple(first), tuple(last)


def name_cells(by: Dimension) -> int:
    """Return the width in cells of the column of names, in a table grouped ``by`` that is no tree."""
    return {"container": 17, "layer": 17}.get(by, NAME_CELLS)


def offered(ids: Sequence[str], have: Collection[Need]) -> tuple[str, ...]:
    """Return those of ``ids`` that name columns whose data exists: their need is in ``have``, or they need
    nothing."""
    return tuple(name for name in ids if name in BY_ID and (not (need := BY_ID[name].needs) or need in have))


def checked(ids: Sequence[str]) -> tuple[str, ...]:
    """Return ``ids`` if they name columns that a user may choose. Otherwise raises ValueError with the ids
    that are allowed."""
    for name in ids:
        if name not in IDS:
            raise ValueError(f"no column {name!r}; columns: {', '.join(IDS)}")
    if len(set(ids)) < len(ids):
        raise ValueError(f"a column is named twice: {', '.join(ids)}")
    return tuple(ids)


def columns(
    by: Dimension,
    width: int,
    have: Collection[Need] = (),
    chosen: Sequence[str] = (),
    *,
    tree: bool = False,
    sort: str = "",
) -> tuple[Column, ...]:
    """Return the columns of a table grouped ``by`` on ``width`` cells: the name, then the chosen or usual
    ones, and the column by which a user sorts (``sort``). In a ``tree`` the column of names is wider, because
    names are indented."""
    ids = defaults(by, width, have)
    if sort in _SPARED and sort not in ids:
        ids = (sort, *ids)
    if chosen and "mark" not in have:
        # A chosen column of resources is shown with dashes if they were not measured.
        ids = offered(chosen, {*have, "use", "owner", "held"})
    cells = TREE_CELLS if tree else name_cells(by)
    name = Column("name", by.upper(), cells, right=False, fixed=True, most=44, ends_differ=by in _ENDS_DIFFER)
    return (name, *(_column(BY_ID[one], by, width) for one in ids if one != "beside" or by in BESIDE))


def _column(column: TableColumn, by: Dimension, width: int) -> Column:
    if column.id == "beside":
        other = BESIDE[by][1]
        cells = 7 if other == "layer" else column.width if width >= ROOMY else BESIDE_CELLS
        return Column(column.id, other.upper(), cells, column.right)
    return Column(column.id, column.heading, column.width, column.right)


def sorts(shown: Sequence[Column]) -> tuple[str, ...]:
    """Return the ids by which a table with the columns ``shown`` can be sorted, in the order in which the
    sort key selects them."""
    found: dict[str, None] = {"name": None}
    for column in shown:
        sort = sort_of(column.id)
        if sort:
            found[sort] = None
    return tuple(found)


def sort_of(column: str) -> str:
    """Return the id by which a click on the head of ``column`` sorts; empty if a click has no effect."""
    known = BY_ID.get(column)
    if known is None:
        return column if column == "name" else ""
    return known.id if known.sort is None else known.sort
