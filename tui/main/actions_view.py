"""Keys of the main screen for the rows and columns of its tables."""

from __future__ import annotations

from stalltop.tui.main.main_view import MainView
from stalltop.tui.tables.column_screen import ColumnScreen
from stalltop.tui.tables.compare_screen import CompareScreen


class ViewActions(MainView):
    """Unfolds rows, leaves some out, compares two, chooses columns."""

    def action_unfold(self) -> None:
        """What is below the row under the cursor, in place; again: folded."""
        self.tables.unfold()

    def action_unfold_all(self) -> None:
        """What is below all rows, in place; again: folded."""
        self.tables.unfold_all()

    def action_only(self) -> None:
        """Leave out idle rows; again: all but those that something is wrong with; again: none."""
        self.say(f"rows: {self.tables.next_only()}", "label")

    def action_versus(self) -> None:
        """Pick the row under the cursor; on a second row: both side by side."""
        pair = self.tables.pick()
        if pair is not None:
            self.app.push_screen(CompareScreen(pair))

    def action_columns(self) -> None:
        """Choose the columns of the table that has the keys."""
        tables, by = self.tables, self.tables.by_here
        self.app.push_screen(
            ColumnScreen(
                by,
                tables.columns.get(by, ()),
                tables.usual_columns(),
                lambda ids: tables.choose_columns(by, ids),
            )
        )
