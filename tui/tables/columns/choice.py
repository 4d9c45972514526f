"""Decides which columns a table has: the usual ones for its width, and the ones that a user may choose."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from stalltop.model.rows.dimensions import Dimension
from stalltop.tui.tables.columns import against, now
from stalltop.tui.tables.columns.kind import Kind, Need
from stalltop.widgets.table import Column

KINDS: Final = (*now.KINDS, *against.KINDS)
"""All columns besides the name, in the order in which they are offered."""
BY_ID: Final = {kind.id: kind for kind in KINDS}

BESIDE: dict[Dimension, tuple[Dimension, ...]] = {
    "operation": ("operation", "layer"),
    "process": ("process", "container"),
    "pod": ("pod", "namespace"),
}
"""Dimensions whose rows show a second dimension beside the name, to tell rows of one name apart."""

WIDE = 110
"""Width in cells from which a table shows all of its usual columns."""
NAME_CELLS = 21
"""Cells that most names need."""
TREE_CELLS = 23
"""Cells of the names of a tree. With this many, 80 cells still show the column OPEN."""
WIDER = 170
"""Width in cells from which a table also shows how its rows change."""


def defaults(by: Dimension, width: int, have: Collection[Need] = ()) -> tuple[str, ...]:
    """Return the ids of the usual columns of a table grouped ``by`` on ``width`` cells, the most important
    first.

    ``have`` lists the needs of columns that the data meets.
    """
    if "mark" in have and against.KINDS:
        return tuple(kind.id for kind in against.KINDS)
    beside = ("beside",) if by in BESIDE else ()
    middle = ("calls", "p50", "p95", "p99", "max", "total", "share")
    if width < WIDE:
        first = offered((*middle, "split", "open", "errors"), have)
        return offered((*_fitting(first, by, width), *beside, "bytes", "n"), have)
    # With the container beside the name, 120 cells have no room for bars.
    roomy = width >= (150 if "split" in have else 130 if by == "process" else WIDE)
    changes: tuple[str, ...] = ("trend", "change", "normal") if width >= WIDER else ()
    if not changes and name_cells(by) < NAME_CELLS:
        changes = ("trend",)  # shorter names leave room for it
    last: tuple[str, ...] = ()
    if width >= WIDER:
        last = tuple(one for one in ("procs", "device") if one != by and (one, by) != ("procs", "process"))
    drawn = ("bar",) if roomy else ()
    calls = ("open", "errors", "bytes", "n")
    if width < WIDER:
        return offered((*beside, *middle, *drawn, "split", *calls, *changes), have)
    return offered((*beside, *middle, *drawn, "split", *changes, *calls, *last), have)


def _fitting(ids: Sequence[str], by: Dimension, width: int) -> tuple[str, ...]:
    """Return ``ids`` with the least important ones last if not all fit: 80 cells must show where the time
    went and which calls hang."""
    first, last = list(ids), list[str]()
    for one in ("p95", "share"):
        if 2 + name_cells(by) + sum(BY_ID[name].width + 1 for name in first) > width:
            first.remove(one)
            last.insert(0, one)
    return (*first, *last)


def name_cells(by: Dimension) -> int:
    """Return the width of the names of a table grouped ``by`` that is no tree."""
    return {"container": 17, "layer": 17}.get(by, NAME_CELLS)


def offered(ids: Sequence[str], have: Collection[Need]) -> tuple[str, ...]:
    """Return those of ``ids`` that name columns whose needs ``have`` meets."""
    return tuple(name for name in ids if name in BY_ID and (not (need := BY_ID[name].needs) or need in have))


def checked(ids: Sequence[str]) -> tuple[str, ...]:
    """Return ``ids`` if they name columns that a user may choose. Raises ValueError, which names the allowed
    ones."""
    allowed = [kind.id for kind in now.KINDS]
    for name in ids:
        if name not in allowed:
            raise ValueError(f"no column {name!r}; columns: {', '.join(allowed)}")
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
    ones.

    The names of a ``tree`` are wider by their indent.
    """
    ids = offered(chosen, have) if chosen and "mark" not in have else defaults(by, width, have)
    cells = TREE_CELLS if tree else name_cells(by)
    name = Column("name", by.upper(), cells, right=False, fixed=True, most=44)
    return (name, *(_column(BY_ID[one], by) for one in ids if one != "beside" or by in BESIDE))


def _column(kind: Kind, by: Dimension) -> Column:
    if kind.id == "beside":
        other = BESIDE[by][1]
        return Column(kind.id, other.upper(), 7 if other == "layer" else kind.width, kind.right)
    return Column(kind.id, kind.title, kind.width, kind.right)


def sorts(shown: Sequence[Column]) -> tuple[str, ...]:
    """Return what the columns ``shown`` can be sorted by, in the order in which the key goes through them."""
    found: dict[str, None] = {"name": None}
    for column in shown:
        sort = sort_of(column.id)
        if sort:
            found[sort] = None
    return tuple(found)


def sort_of(column: str) -> str:
    """Return what a click on the head of ``column`` sorts by; empty: nothing."""
    kind = BY_ID.get(column)
    if kind is None:
        return column if column == "name" else ""
    return kind.sort or (kind.id if kind.values is not None else "")
