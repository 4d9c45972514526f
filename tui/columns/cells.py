"""Describes how the cells of a column of a table of groups are drawn and sorted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stalltop.model.text import figures
from stalltop.model.text.glyphs import ASCII, UNICODE, Glyphs
from stalltop.tui.columns.catalogue import SPLIT_CELLS
from stalltop.tui.views.groups import Grouped, Key
from stalltop.widgets.drawing.magnitude import brightness
from stalltop.widgets.table import Cell

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ColumnStyle:
    """How cells are drawn."""

    glyphs: Glyphs = UNICODE
    letters: bool = False
    """Whether bars of the parts of a call's time consist of letters and patterns, for terminals with few
    colours."""
    split_cells: int = SPLIT_CELLS
    """The width of such a bar, in cells."""
    loud: Mapping[Key, Collection[str]] = field(default_factory=dict)
    """The parts of the split that problems of a row are about, by its key."""


@dataclass(frozen=True, slots=True)
class ColumnCells:
    """The cells of a column."""

    draw: Callable[[Grouped, int, ColumnStyle], Cell]
    """Returns the cell of a row. Called for visible rows only."""
    values: Callable[[Grouped], Values] | None = None
    """Returns a number for each row to sort by. NaN, an unknown value, comes last in both directions."""
    uncounted: Cell | None = None
    """The cell of rows without a counted call; None: a dash."""
    always: bool = False
    """Whether ``draw`` is called for rows without a counted call too."""


_DIM_DASH = {glyphs: Cell(glyphs.missing, "dim") for glyphs in (UNICODE, ASCII)}
BLANK = Cell("")
"""An empty cell."""


def duration_cell(ns: float | None, style: ColumnStyle, *, unsure: bool = False) -> Cell:
    """Return the cell of a duration: the longer it is, the brighter. ``unsure``: few calls support the
    duration, or chance can explain it."""
    return Cell(figures.duration(ns, style.glyphs), brightness(ns), unsure=unsure)


def cell(column: ColumnCells, rows: Grouped, i: int, style: ColumnStyle) -> Cell:
    """Return the cell of ``column`` for row ``i``."""
    if rows.places[i] >= 0 or column.always:
        return column.draw(rows, i, style)
    return column.uncounted or _DIM_DASH[style.glyphs]
