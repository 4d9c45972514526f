"""How the tables look at the window: what each of them groups by, and in which order its rows are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stalltop.model.rows.pivot import DIMENSIONS, Dimension
from stalltop.tui.settings.settings import Chosen
from stalltop.tui.tables.view import ONLY, View


class TableViews:
    """The views of the first table and of those next to it, and the columns of all."""

    def __init__(self) -> None:
        self.first = View()
        self.others = [View(), View()]
        """How the second and the third table are sorted and unfolded; for the rest they follow the first."""
        self.comparing = False
        """Tables show what changed, which has an order of its own."""
        self._changes_order = ("lost", True)
        self.columns: dict[Dimension, tuple[str, ...]] = {}
        """Ids of the columns that were chosen, by what a table shows; the usual ones where there are none."""

    def of_other(self, at: int, by: Dimension) -> View:
        """How the second (0) or third (1) table looks at the window, grouped by ``by``."""
        first = self.first
        return replace(self.others[at], by=by, path=first.path, filter=first.filter, only=first.only)

    def in_order(self, view: View) -> View:
        """``view`` in the order of tables of what changed, while these are shown."""
        if not self.comparing:
            return view
        sort, descending = self._changes_order
        return replace(view, sort=sort, descending=descending)

    def change(self, at: int, before: View, change: Callable[[View], View]) -> None:
        """Change the view of table number ``at`` (from 0), which is ``before``."""
        view = change(self.in_order(before))
        if self.comparing:
            self._changes_order = (view.sort, view.descending)
            view = replace(view, sort=before.sort, descending=before.descending)
        if at:
            self.others[at - 1] = view
        else:
            self.first = view

    def fold_others(self) -> None:
        """Fold all rows of the second and the third table."""
        self.others = [view.folded() for view in self.others]

    def next_only(self) -> str:
        """Leave out other rows; gives which ones are left."""
        self.first = self.first.next_only()
        return ONLY[self.first.only]

    @property
    def order(self) -> tuple[str, bool]:
        """Id of the column that the first table is sorted by, and whether the largest come first."""
        return self.first.sort, self.first.descending

    @property
    def way_out(self) -> str:
        """What a step back does, in a word; empty: nothing."""
        first = self.first
        return "Back" if first.path else "Clear" if first.filter else "All rows" if first.only else ""

    @property
    def chosen_columns(self) -> Chosen:
        """The columns that were chosen, as a setting."""
        return tuple((by, self.columns[by]) for by in DIMENSIONS if by in self.columns)

    @chosen_columns.setter
    def chosen_columns(self, chosen: Chosen) -> None:
        ids = dict(chosen)
        self.columns = {by: ids[by] for by in DIMENSIONS if by in ids}

    def choose_columns(self, by: Dimension, ids: tuple[str, ...]) -> None:
        """Tables by ``by`` have these columns from now on; none: the usual ones."""
        if ids:
            self.columns[by] = ids
        else:
            self.columns.pop(by, None)
