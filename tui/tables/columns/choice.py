"""Which columns a table of groups has: what is shown where nobody chose, and what may be chosen."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from stalltop.model.rows.pivot import Dimension
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
"""Dimensions whose groups need a second one beside them to be told apart."""

WIDE = 110
"""Cells from which a table shows all of its usual columns."""
NAME_CELLS = 21
"""Cells of most names."""
TREE_CELLS = 23
"""Cells of the names of a tree: with them OPEN is still seen on 80 cells."""
WIDER = 170
"""Cells from which it shows how rows change."""


def defaults(by: Dimension, width: int, have: Collection[Need] = ()) -> tuple[str, ...]:
    """Ids of the columns of a table by ``by`` on ``width`` cells where nobody chose: what matters most first.

    ``have`` is what columns may need and is there.
    """
    if "baseline" in have and against.KINDS:
        return tuple(kind.id for kind in against.KINDS)
    beside = ("beside",) if by in BESIDE else ()
    middle = ("calls", "p50", "p95", "p99", "max", "total", "share")
    if width < WIDE:
        first = offered((*middle, "split", "open", "errors"), have)
        return offered((*_fitting(first, by, width), *beside, "bytes", "n"), have)
    # A container beside leaves no room for bars on 120 cells.
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
    """``ids`` with those last that matter least, where not all of them fit: where the time went, and what
    hangs, must be seen on 80 cells too."""
    first, last = list(ids), list[str]()
    for one in ("p95", "share"):
        if 2 + name_cells(by) + sum(BY_ID[name].width + 1 for name in first) > width:
            first.remove(one)
            last.insert(0, one)
    return (*first, *last)


def name_cells(by: Dimension) -> int:
    """Cells of the names of a table by ``by`` that is no tree."""
    return {"container": 17, "layer": 17}.get(by, NAME_CELLS)


def offered(ids: Sequence[str], have: Collection[Need]) -> tuple[str, ...]:
    """Those of ``ids`` that are columns and whose needs are met by ``have``."""
    return tuple(name for name in ids if name in BY_ID and (not (need := BY_ID[name].needs) or need in have))


def checked(ids: Sequence[str]) -> tuple[str, ...]:
    """``ids`` as columns that were chosen. Raises ValueError, with what is allowed, for anything else."""
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
    """The columns of a table by ``by`` on ``width`` cells: name, then those ``chosen`` or usual.

    Names of a ``tree`` are longer by what they are indented.
    """
    ids = offered(chosen, have) if chosen and "baseline" not in have else defaults(by, width, have)
    cells = TREE_CELLS if tree else name_cells(by)
    name = Column("name", by.upper(), cells, right=False, fixed=True, most=44)
    return (name, *(_column(BY_ID[one], by) for one in ids if one != "beside" or by in BESIDE))


def _column(kind: Kind, by: Dimension) -> Column:
    if kind.id == "beside":
        other = BESIDE[by][1]
        return Column(kind.id, other.upper(), 7 if other == "layer" else kind.width, kind.right)
    return Column(kind.id, kind.title, kind.width, kind.right)


def sorts(shown: Sequence[Column]) -> tuple[str, ...]:
    """What the columns ``shown`` can be sorted by, in the order in which a key goes through them."""
    found: dict[str, None] = {"name": None}
    for column in shown:
        sort = sort_of(column.id)
        if sort:
            found[sort] = None
    return tuple(found)


def sort_of(column: str) -> str:
    """What a click on the head of ``column`` sorts by; empty: nothing."""
    kind = BY_ID.get(column)
    if kind is None:
        return column if column == "name" else ""
    return kind.sort or (kind.id if kind.values is not None else "")
