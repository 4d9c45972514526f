"""Keys of the main screen for the rows and columns of its tables."""

from __future__ import annotations

from stalltop.model.rows.pivot import Dimension
from stalltop.tui.main.panels import PanelKeys
from stalltop.tui.main.time_keys import TimeKeys
from stalltop.tui.main.view import MainView


class RowKeys:
    """Groups, sorts and unfolds the rows of ``main``, compares two, and opens pages about one."""

    def __init__(self, main: MainView, panels: PanelKeys, time: TimeKeys) -> None:
        self._main = main
        self._say = main.speech.say
        self._panels = panels
        self._time = time

    def pivot(self, by: Dimension) -> None:
        """Group by ``by``."""
        self._main.tables.pivot(by)

    def out(self) -> None:
        """One step back: from the warnings to the tables, from what changed to what is, from a row to where
        it is in."""
        if self._main.panel.has_focus:
            self._panels.leave_warnings()
        elif not self._time.stop_comparing():
            self._main.tables.out()

    def sort(self, step: int) -> None:
        """Sort by the next (1) or previous (-1) column."""
        self._main.tables.sort(step)

    def reverse(self) -> None:
        """Reverse the order of the rows."""
        self._main.tables.reverse()

    def other(self) -> None:
        """The keys go to the other table."""
        self._main.tables.other()

    def unfold(self) -> None:
        """What is below the row under the cursor, in place; again: folded."""
        self._main.tables.unfold()

    def unfold_all(self) -> None:
        """What is below all rows, in place; again: folded."""
        self._main.tables.unfold_all()

    def only(self) -> None:
        """Leave out idle rows; again: all but those that something is wrong with; again: none."""
        self._say(f"rows: {self._main.tables.next_only()}", "label")

    def versus(self) -> None:
        """Pick the row under the cursor; on a second row: both side by side."""
        pair = self._main.tables.pick()
        if pair is not None:
            self._main.stalltop.opens.pair(pair)

    def columns(self) -> None:
        """Choose the columns of the table that has the keys."""
        tables, by = self._main.tables, self._main.tables.by_here
        self._main.stalltop.opens.columns(
            by, tables.columns.get(by, ()), tables.usual_columns(), lambda ids: tables.choose_columns(by, ids)
        )

    def details(self) -> None:
        """The page of the row under the cursor."""
        path = self._main.tables.path_here()
        if path:
            self._main.stalltop.opens.row(path)
        else:
            self._say("there is no row here", "dim")

    def devices(self) -> None:
        """The page of the device under the cursor, or of the only one; else the list of all of them."""
        window, opens = self._main.shown, self._main.stalltop.opens
        if window is None:
            self._say("no device was looked for yet", "dim")
            return
        numbers = [device.index for device in window.devices.devices]
        on = self._main.tables.devices_here()
        if len(numbers) < 2:
            opens.device()
        elif self._main.tables.by_here == "device" and len(on) == 1 and on[0] in numbers:
            opens.device(numbers.index(on[0]))
        else:
            opens.devices(on)
