"""What a column of a table of groups is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stalltop.model.text import figures
from stalltop.tui.tables.groups import Grouped
from stalltop.widgets.table import Cell

Values = NDArray[np.float64]
Need = Literal["", "split", "past", "baseline", "normals"]
"""What a column cannot do without: splits that were measured, the windows before this one, another window to
compare with (``Grouped.before``), what is normal for some of the rows."""


@dataclass(frozen=True, slots=True)
class Look:
    """How cells are drawn."""

    unicode: bool = True
    letters: bool = False
    """There are no colours to tell parts of the time apart by."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of column."""

    id: str
    title: str
    """Empty: the title is of what the table shows."""
    width: int
    help: str
    cell: Callable[[Grouped, int, Look], Cell]
    """The cell of one row. Asked for rows in view only."""
    values: Callable[[Grouped], Values] | None = None
    """What rows are sorted by, one number a row; NaN, not known, comes last either way."""
    sort: str = ""
    """The column that a click sorts by instead; empty: this one, if it has values."""
    right: bool = True
    needs: Need = ""
    uncounted: Cell | None = None
    """In rows without a counted call: this in place of ``cell``, a dash if None."""
    always: bool = False
    """``cell`` is asked for rows without a counted call too."""


_DIM_DASH = {True: Cell(figures.missing(1), "dim"), False: Cell(figures.missing(1, unicode=False), "dim")}
BLANK = Cell("")
"""A cell with nothing in it."""


def cell(kind: Kind, rows: Grouped, i: int, look: Look) -> Cell:
    """The cell of ``kind`` for row ``i``."""
    if rows.at[i] >= 0 or kind.always:
        return kind.cell(rows, i, look)
    return kind.uncounted or _DIM_DASH[look.unicode]
