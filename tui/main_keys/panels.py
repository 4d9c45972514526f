"""The keys that show, hide and resize the panels of the main screen."""

from __future__ import annotations

from stalltop.tui.keys.actions import key
from stalltop.tui.main.layout import Enlarged, why_not
from stalltop.tui.main.view import MainView
from stalltop.tui.settings.settings import LEAST_SHARE, MOST_SHARE, Settings

NAMES = {
    "host": "the bars of the host",
    "devices": "the devices",
    "warnings": "the problems",
    "table": "the tables",
    "second": "the second table",
    "keys": "the line of keys",
}
"""The names of panels in messages."""


class PanelKeys:
    """Handles the keys for the panels of ``main``."""

    def __init__(self, main: MainView) -> None:
        self._main = main
        self._say = main.speech.say
        self._arrangement = main.arrangement

    def toggle(self, name: str) -> None:
        """Show or hide the panel ``name``."""
        arrangement = self._arrangement
        if arrangement.enlarged:
            self._enlarge("")
        hidden = name not in arrangement.panels
        if not hidden and not arrangement.panels - {name} & {"table", "warnings"}:
            self._say("the tables or the problems must stay visible", "warn")
            return
        arrangement.panels = arrangement.panels ^ {name}
        reason = why_not(name, *self._main.app.size) if hidden else ""
        self._rearranged()
        if reason:
            self._say(f"{NAMES[name]} will be shown where there is room: {reason}", "dim")
        else:
            self._say(f"{NAMES[name]}: {'shown' if hidden else 'hidden'}", "label")

    def reset(self) -> None:
        """Restore the panels, the sizes of the tables, and their columns and order as at a first start."""
        usual, arrangement, tables = Settings(), self._arrangement, self._main.tables
        arrangement.panels, arrangement.share = frozenset(usual.panels), usual.share
        self._main.graphs.wanted = usual.graphs
        arrangement.enlarged = ""
        tables.views.chosen_columns = usual.columns
        tables.put_order(usual.sort, usual.descending)
        self._rearranged()

    def show(self, name: str) -> None:
        """Show the panel ``name`` if it is hidden."""
        if name not in self._arrangement.panels:
            self.toggle(name)

    def enlarge(self) -> None:
        """Show the panel that has the focus on the whole screen, or all panels again."""
        warnings = self._main.panel.has_focus
        self._enlarge("" if self._arrangement.enlarged else "warnings" if warnings else "tables")

    def leave_warnings(self) -> None:
        """Focus the tables. If the list of problems takes the whole screen, show all panels again."""
        if self._arrangement.enlarged == "warnings":
            self._enlarge("")
        if self._main.tables.display:
            self._main.tables.focus_main()
        else:
            self._say(f"the tables are hidden; {key('panel_table')} shows them", "dim")

    def graphs(self) -> None:
        """Open the list of figures that graphs can show."""
        graphs = self._main.graphs

        def choose(ids: tuple[str, ...]) -> None:
            graphs.wanted = ids

        self._main.opens.graphs(graphs.wanted, choose)

    def share(self, percent: int) -> None:
        """Give the first of two tables ``percent`` percent more of the room; less if negative."""
        if not self._main.tables.second.display:
            self._say("only one table is shown", "dim")
            return
        arrangement = self._arrangement
        arrangement.share = min(max(arrangement.share + percent, LEAST_SHARE), MOST_SHARE)
        self._rearranged()
        self._say(f"the first table may take {arrangement.share} %", "label")

    def _enlarge(self, what: Enlarged) -> None:
        self._arrangement.enlarged = what
        self._rearranged()

    def _rearranged(self) -> None:
        self._arrangement.fit()
        self._main.call_after_refresh(self._main.drawing.everything)
