"""Describes one column of a table of groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stalltop.model.text.glyphs import ASCII, UNICODE, Glyphs
from stalltop.tui.tables.groups import Grouped
from stalltop.widgets.table import Cell

Values = NDArray[np.float64]
Need = Literal["", "split", "past", "baseline", "normals"]
"""What data a column needs: measured splits, earlier windows, another window to compare with
(``Grouped.before``), or baselines of some rows."""


@dataclass(frozen=True, slots=True)
class ColumnStyle:
    """How cells are drawn."""

    glyphs: Glyphs = UNICODE
    letters: bool = False
    """Whether parts of the time are letters, for terminals without colours."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A column that a table may have."""

    id: str
    title: str
    """The head. Empty: the dimension of the table."""
    width: int
    help: str
    cell: Callable[[Grouped, int, ColumnStyle], Cell]
    """Returns the cell of a row. Called for visible rows only."""
    values: Callable[[Grouped], Values] | None = None
    """Returns a number for each row to sort by. NaN, an unknown value, comes last in both directions."""
    sort: str = ""
    """The id of the column that a click sorts by. Empty: this one if it has values."""
    right: bool = True
    needs: Need = ""
    uncounted: Cell | None = None
    """The cell of rows without a counted call; None: a dash."""
    always: bool = False
    """Whether ``cell`` is called for rows without a counted call too."""


_DIM_DASH = {glyphs: Cell(glyphs.missing, "dim") for glyphs in (UNICODE, ASCII)}
BLANK = Cell("")
"""An empty cell."""


def cell(kind: Kind, rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    """Return the cell of ``kind`` for row ``i``."""
    if rows.at[i] >= 0 or kind.always:
        return kind.cell(rows, i, style)
    return kind.uncounted or _DIM_DASH[style.glyphs]
