"""Places one to three tables, and the graphs among them, in a panel."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from textual.containers import Vertical
from textual.geometry import Region
from textual.layout import Layout

from stalltop.tui.keys.actions import bindings
from stalltop.tui.screens.steady import Steady
from stalltop.tui.tables.sizes import HEADS, NO_TABLE, PanelPlace, TableNeeds, TablesLayout
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.placing import RegionLayout
from stalltop.widgets.table import Table
from stalltop.widgets.table_drawing import without_rows

FEW_ROWS = 6
"""A table gets lines for at least this many rows, if it has so many, before it leaves out rows that matter
little."""
GUESS = 4
"""Rows that a table is thought to have before it is shown for the first time."""


class GroupTable(Table, can_focus=True):
    """A table of groups with the key bindings of ``tui.keys.actions``."""

    BINDINGS = bindings("table")


class Panel(Vertical):
    """A container that places its children in given regions."""

    @cached_property
    def places(self) -> RegionLayout:
        """Return the layout of the children."""
        return RegionLayout()

    @property
    def layout(self) -> Layout:
        """Return the layout of the children."""
        return self.places


class TableRoom:
    """Places the tables and graphs of ``panel``, and computes how many lines the tables need to show all of
    their content."""

    def __init__(self, panel: Panel, *tables: GroupTable) -> None:
        self._panel = panel
        self._tables = tables
        self._steady = {str(table.id): Steady() for table in tables}
        self._placed: Mapping[str, PanelPlace] = {}

    def forget_lines(self) -> None:
        """Forget how many lines the tables needed, because they now show something else."""
        for steady in self._steady.values():
            steady.forget()

    def cells_of(self, widget: Table) -> int:
        """Return the width in cells that a table has for its columns."""
        place = self._placed.get(str(widget.id))
        if place is None:
            return self._panel.app.size.width
        return place.width - place.frame.columns

    def rows_of(self, widget: Table) -> int:
        """Return for how many rows a table has lines; 0 if it is not shown yet."""
        place = self._placed.get(str(widget.id))
        return 0 if place is None else place.height - HEADS - place.frame.bottom

    def for_legend(self) -> GroupTable:
        """Return the one of the first two tables that has more room for a legend: the wider one. If both are
        equally wide, it is the second: the frame of the first one also shows the keys of the keyboard that
        group its rows (`Tables._hint`)."""
        first, second = self._tables[:2]
        return second if second.display and self.cells_of(second) >= self.cells_of(first) else first

    def needs(self, widget: GroupTable, at: object, *, wanted: bool) -> TableNeeds:
        """Return how many lines ``widget`` needs to show all of its content. ``at`` identifies the window;
        ``wanted``: there is such a table."""
        if not wanted:
            return NO_TABLE
        data = widget.data
        if not data.columns:
            return TableNeeds(GUESS)  # it was not shown yet
        lines = len(data.rows) - data.filling or len(without_rows(data.empty, self.cells_of(widget)))
        # A table of two rows beside a tall panel about the problem would look as if there were no others.
        small = min(max(FEW_ROWS - lines, 0), data.could_fill)
        return TableNeeds(self._steady[str(widget.id)].need(lines + small, at), more=data.could_fill - small)

    def place(self, layout: TablesLayout) -> list[GroupTable]:
        """Place tables and graphs as ``layout`` says. Returns the visible tables whose size has changed:
        their content must be made again."""
        placed = {place.name: place for place in layout.places}
        if placed == self._placed:
            return []
        before, self._placed = self._placed, placed
        for child in self._panel.children:
            place = placed.get(str(child.id))
            child.display = place is not None
            if place is not None and isinstance(child, Lines):
                child.frame = place.frame
        self._panel.places.regions = {
            name: Region(place.x, place.y, place.width, place.height) for name, place in placed.items()
        }
        # A child requests the new layout: only then does Textual forget the old places of all children. After
        # a request of their container it would keep them.
        self._tables[0].refresh(layout=True)
        return [
            table
            for table in self._tables
            if (now := placed.get(str(table.id))) is not None
            and ((was := before.get(str(table.id))) is None or _room(was) != _room(now))
        ]


def _room(place: PanelPlace) -> tuple[int, int]:
    return place.width - place.frame.columns, place.height
