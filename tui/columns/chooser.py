"""Shows, hides and reorders columns in the list of columns. Pure functions of the ids of columns."""

from __future__ import annotations

from collections.abc import Sequence

from stalltop.model.rows.dimensions import Dimension
from stalltop.model.text.glyphs import Glyphs
from stalltop.tui.columns.catalogue import BY_ID, IDS
from stalltop.tui.views.view import BESIDE
from stalltop.widgets.table import Cell, Column, TableData, TableRow

HINT = "Space show/hide  < > move  u usual  Enter closes "


def listed(chosen: Sequence[str], offered: Sequence[str]) -> tuple[str, ...]:
    """Return all columns in the order of the list: those ``chosen``, then the others of ``offered``."""
    return (*chosen, *(name for name in offered if name not in chosen))


def toggled(chosen: Sequence[str], name: str) -> tuple[str, ...]:
    """Return ``chosen`` without the column ``name``. If it is not in ``chosen``, add it at the end."""
    return tuple(one for one in chosen if one != name) if name in chosen else (*chosen, name)


def moved(chosen: Sequence[str], name: str, step: int) -> tuple[str, ...]:
    """Return ``chosen`` with the column ``name`` moved ``step`` places to the right."""
    if name not in chosen:
        return tuple(chosen)
    at = chosen.index(name)
    rest = [one for one in chosen if one != name]
    rest.insert(min(max(at + step, 0), len(rest)), name)
    return tuple(rest)


def possible(by: Dimension) -> tuple[str, ...]:
    """Return the ids of all columns that a user may choose for a table grouped ``by``."""
    return tuple(name for name in IDS if name != "beside" or by in BESIDE)


def chooser(
    what: str, chosen: Sequence[str], order: Sequence[str], *, width: int, glyphs: Glyphs
) -> TableData:
    """Return the list of the columns of a table, ``width`` cells wide. ``what`` names the rows of that table,
    in the plural. ``order`` is the order of the lines."""
    rows = []
    for name in order:
        column, shown = BY_ID[name], name in chosen
        sign = glyphs.chosen if shown else " "
        place = str(chosen.index(name) + 1) if shown else ""
        rows.append(
            TableRow(
                name,
                (
                    Cell(f"{sign} {column.heading or name.upper()}", "" if shown else "dim"),
                    Cell(place, "dim"),
                    Cell(column.help, "" if shown else "dim"),
                ),
                name,
            )
        )
    return TableData(
        title=(("Columns of ", "dim"), (what, "head")),
        columns=(
            Column("column", "COLUMN", 12, right=False, fixed=True, most=12),
            Column("place", "PLACE", 5, fixed=True),
            Column("help", "WHAT IT SHOWS", max(width - 21, 10), right=False, fixed=True),
        ),
        rows=tuple(rows),
        legend=((HINT, "dim"),),
    )
