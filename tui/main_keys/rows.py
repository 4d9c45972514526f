"""The keys of the main screen for the rows and columns of its tables."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from stalltop.model.devices.labels import gpus_of
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.sharing.placing import placement
from stalltop.model.window import Window
from stalltop.tui.columns.choice import defaults, sorts
from stalltop.tui.main.view import MainView
from stalltop.tui.main_keys.panels import PanelKeys
from stalltop.tui.main_keys.time_keys import TimeKeys
from stalltop.tui.tables.steps import TableSteps
from stalltop.tui.tables.table import available
from stalltop.tui.views.orders import WORST
from stalltop.tui.views.path import below
from stalltop.widgets.table import Table


class RowKeys:
    """Groups, sorts and unfolds the rows of ``main``, compares two of them, and opens their pages."""

    def __init__(self, main: MainView, steps: TableSteps, panels: PanelKeys, time: TimeKeys) -> None:
        self._main = main
        self._say = main.speech.say
        self._steps = steps
        self._panels = panels
        self._time = time

    def pivot(self, by: Dimension) -> None:
        """Group the rows by ``by``."""
        self._steps.pivot(by)

    def enter(self, widget: Table, key: Hashable) -> None:
        """Go into the row ``key`` of ``widget``. If the row has no rows inside, open its page."""
        if not self._steps.enter(widget, key):
            self.details()

    def out(self) -> None:
        """Go back one step: from the list of problems to the tables, from a comparison to the figures, from
        inside a row to the rows around it."""
        if self._main.panel.has_focus:
            self._panels.leave_warnings()
        elif not self._time.stop_comparing():
            self._steps.out()

    def sort(self, step: int) -> None:
        """Sort by the next (1) or previous (-1) column."""
        among = sorts(self._main.tables.here[0].data.columns)
        if self._main.tables.against is None:
            among = (WORST, *among)
        self._main.tables.change(lambda view: view.next_sort(step, among))

    def reverse(self) -> None:
        """Reverse the order of the rows."""
        self._main.tables.change(lambda view: replace(view, descending=not view.descending))

    def other(self) -> None:
        """Focus the next table."""
        self._main.tables.other()

    def unfold(self) -> None:
        """Unfold the row under the cursor: show the rows that it consists of, below it. If the row is
        unfolded, fold it."""
        widget, view = self._main.tables.here
        key = widget.cursor_key
        if not isinstance(key, tuple):
            return
        changed = view.toggled(key)
        if changed is view:
            self._say("there is nothing below this row", "dim")
            return
        self._main.tables.change(lambda _: changed, widget)

    def unfold_all(self) -> None:
        """Unfold all rows by one level, or fold all if any row is unfolded."""
        widget, view = self._main.tables.here
        changed = view.all_toggled()
        if changed is view:
            self._say("there is nothing below these rows", "dim")
            return
        key = widget.cursor_key
        if isinstance(key, tuple) and not changed.is_tree:
            # The cursor's row is hidden: the cursor moves to the row that contains it.
            widget.put_cursor(key[: len(view.levels()[0].by)])
        self._main.tables.change(lambda _: changed, widget)

    def only(self) -> None:
        """Switch to the next choice of rows: first without idle rows, then only rows with a problem or a long
        open call, then all rows."""
        left = self._main.tables.views.next_only()
        self._main.tables.redraw()
        self._say(f"rows: {left}", "label")

    def versus(self) -> None:
        """Pick the row under the cursor. If another row was picked before, show both side by side."""
        pair = self._main.tables.pick()
        if pair is not None:
            self._main.opens.pair(pair)

    def columns(self) -> None:
        """Open the dialogue for the columns of the table that has the focus."""
        tables = self._main.tables
        widget, view = tables.here
        window, past = tables.window, tables.past  # this window has the baselines of its rows
        there = set()
        if window is not None:
            loses = any(chain.open and chain.lost_ms_per_s > 0 for chain in window.chains)
            there = available(window, past=past, loses=loses)

        def choose(ids: tuple[str, ...]) -> None:
            tables.views.choose_columns(view.by, ids)
            tables.redraw()

        usual = defaults(view.by, tables.room.cells_of(widget), there)
        self._main.opens.columns(view.by, tables.views.columns.get(view.by, ()), usual, choose, there)

    def details(self) -> None:
        """Open the page of the row under the cursor."""
        path = self._main.tables.path_here()
        if path:
            self._main.opens.row(path)
        else:
            self._say("there is no row here", "dim")

    def stacks(self) -> None:
        """Open the page with the lines of code of the row under the cursor; without a row, of all
        processes."""
        self._main.opens.stacks(self._main.tables.path_here())

    def devices(self) -> None:
        """Open the page of the device under the cursor or of the only device; otherwise the list of all
        devices."""
        window, opens = self._main.shown, self._main.opens
        if window is None:
            self._say("the devices are not read yet", "dim")
            return
        numbers = [device.index for device in window.devices.devices]
        on = self._gpus_here(window)
        if len(numbers) < 2:
            opens.device()
        elif self._main.tables.here[1].by == "device" and len(on) == 1 and on[0] in numbers:
            opens.device(numbers.index(on[0]))
        else:
            opens.devices(on)

    def _gpus_here(self, window: Window) -> tuple[int, ...]:
        """Return the numbers of the GPUs that the row under the cursor uses, as far as known."""
        path = self._main.tables.path_here()
        if not path:
            return ()
        inside, devices = below(path, window), placement(window).devices
        return gpus_of(on for key in window.rows.keys if inside(key) for on in devices(key))
