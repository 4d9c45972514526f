"""The views of the tables: what each groups by, how it is sorted, and which columns it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stalltop.model.rows.dimensions import DIMENSIONS, Dimension
from stalltop.tui.settings.settings import Chosen
from stalltop.tui.views.view import ONLY, View


class TableViews:
    """The views of the first table and of those next to it, and the columns of all tables."""

    def __init__(self) -> None:
        self.first = View()
        self.others = [View(), View()]
        """The sorting and unfolding of the second and third table. All else follows the first table."""
        self.comparing = False
        """Whether the tables show what changed. Such tables have a sort order of their own."""
        self._changes_order = ("lost", True)
        self.columns: dict[Dimension, tuple[str, ...]] = {}
        """Ids of the chosen columns by the dimension of the table. Tables of other dimensions have the usual
        columns."""

    def of_other(self, at: int, by: Dimension) -> View:
        """Return the view of the second (0) or third (1) table, grouped by ``by``."""
        first = self.first
        return replace(self.others[at], by=by, path=first.path, filter=first.filter, only=first.only)

    def in_order(self, view: View) -> View:
        """Return ``view``. While the tables show what changed, return it with the sort order that the user
        chose for changes."""
        if not self.comparing:
            return view
        sort, descending = self._changes_order
        return replace(view, sort=sort, descending=descending)

    def change(self, at: int, before: View, change: Callable[[View], View]) -> None:
        """Apply ``change`` to ``before``, the view of table number ``at`` (from 0), and keep the result."""
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
        """Choose the next kind of rows to show, in the order of ``ONLY``. Returns a message about it."""
        self.first = self.first.next_only()
        return ONLY[self.first.only]

    @property
    def order(self) -> tuple[str, bool]:
        """Return the id of the column by which the first table is sorted, and whether it is descending."""
        return self.first.sort, self.first.descending

    @property
    def way_out(self) -> str:
        """Return what a step back does, in a word; empty if there is no step back."""
        first = self.first
        return "Back" if first.path else "Clear" if first.filter else "Usual rows" if first.only else ""

    @property
    def chosen_columns(self) -> Chosen:
        """Return the chosen columns as a value of the settings."""
        return tuple((by, self.columns[by]) for by in DIMENSIONS if by in self.columns)

    @chosen_columns.setter
    def chosen_columns(self, chosen: Chosen) -> None:
        ids = dict(chosen)
        self.columns = {by: ids[by] for by in DIMENSIONS if by in ids}

    def choose_columns(self, by: Dimension, ids: tuple[str, ...]) -> None:
        """Give tables grouped ``by`` these columns; none: the usual ones."""
        if ids:
            self.columns[by] = ids
        else:
            self.columns.pop(by, None)
