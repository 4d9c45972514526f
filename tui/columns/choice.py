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
"""Width in cells from which a table shows all of its usual columns."""
NAME_CELLS = 21
"""Width in cells of the column of names. Most names fit into it."""
TREE_CELLS = 23
"""Width in cells of the column of names in a tree. A terminal of 80 cells then still shows the column
OPEN."""
WIDER = 170
"""Width in cells from which a table also shows how its rows change."""


def defaults(by: Dimension, width: int, have: Collection[Need] = ()) -> tuple[str, ...]:
    """Return the ids of the usual columns of a table grouped ``by`` on ``width`` cells, the most important
    first.

    ``have`` lists the needs of columns that the data meets.
    """
    if "mark" in have:
        return tuple(column.id for column in MARK_COLUMNS)

    def usual(*when: Usual) -> tuple[str, ...]:
        return offered([one.id for one in COLUMNS if one.usual in when and _tells(one.id, by)], have)

    if width < WIDE:
        return (*_fitting(usual("first"), by, width), *usual("last"))
    # Bars need more cells beside a split, and beside the column of containers in a table of processes.
    roomy = width >= (150 if "split" in have else 130 if by == "process" else WIDE)
    ids = usual("first", "last", "roomy") if roomy else usual("first", "last")
    if width >= WIDER:
        at = ids.index("open")
        return (*ids[:at], *usual("changes"), *ids[at:], *usual("wider"))
    # Shorter names leave room for the trend.
    return (*ids, *offered(("trend",), have)) if name_cells(by) < NAME_CELLS else ids


def _tells(name: str, by: Dimension) -> bool:
    """Return whether the column ``name`` adds something to the names in a table grouped ``by``."""
    if name == "beside":
        return by in BESIDE
    return (name, by) not in (("procs", "process"), ("device", "device"))


def _fitting(ids: Sequence[str], by: Dimension, width: int) -> tuple[str, ...]:
    """Return ``ids``. If the columns do not fit on ``width`` cells, move the least important ones to the end,
    out of view: 80 cells must show where the time went and which calls hang."""
    first, last = list(ids), list[str]()
    for one in ("p95", "share"):
        if 2 + name_cells(by) + sum(BY_ID[name].width + 1 for name in first) > width:
            first.remove(one)
            last.insert(0, one)
    return (*first, *last)


def name_cells(by: Dimension) -> int:
    """Return the width in cells of the column of names, in a table grouped ``by`` that is no tree."""
    return {"container": 17, "layer": 17}.get(by, NAME_CELLS)


def offered(ids: Sequence[str], have: Collection[Need]) -> tuple[str, ...]:
    """Return those of ``ids`` that are ids of columns for which ``have`` contains the data."""
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
) -> tuple[Column, ...]:
    """Return the columns of a table grouped ``by`` on ``width`` cells: the name, then the chosen or usual
    ones. In a ``tree`` the column of names is wider, because names are indented."""
    ids = offered(chosen, have) if chosen and "mark" not in have else defaults(by, width, have)
    cells = TREE_CELLS if tree else name_cells(by)
    name = Column("name", by.upper(), cells, right=False, fixed=True, most=44)
    return (name, *(_column(BY_ID[one], by) for one in ids if one != "beside" or by in BESIDE))


def _column(column: TableColumn, by: Dimension) -> Column:
    if column.id == "beside":
        other = BESIDE[by][1]
        return Column(column.id, other.upper(), 7 if other == "layer" else column.width, column.right)
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
