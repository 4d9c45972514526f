"""Keys that change what of the main screen is shown, and how much room it has."""

from __future__ import annotations

from stalltop.tui.keys import key
from stalltop.tui.main.layout import Enlarged, why_not
from stalltop.tui.main.main_view import MainView
from stalltop.tui.settings.settings import LEAST_SHARE, MOST_SHARE, Settings

NAMES = {
    "host": "the host's bars",
    "devices": "the devices",
    "warnings": "the warnings",
    "table": "the tables",
    "second": "the second table",
    "keys": "the line of keys",
}
"""What panels are called."""


class PanelActions(MainView):
    """The keys for the parts of the screen."""

    def action_panel(self, name: str) -> None:
        """Show or hide the panel ``name``."""
        if self._enlarged:
            self._enlarge("")
        hidden = name not in self._panels
        if not hidden and not self._panels - {name} & {"table", "warnings"}:
            self.say("the tables or the warnings have to stay", "warn")
            return
        self._panels = self._panels ^ {name}
        reason = why_not(name, *self.app.size) if hidden else ""
        self._rearranged()
        if reason:
            self.say(f"{NAMES[name]} will be shown where there is room: {reason}", "dim")
        else:
            self.say(f"{NAMES[name]}: {'shown' if hidden else 'hidden'}", "label")

    def action_usual_layout(self) -> None:
        """Panels, the room of the tables, their columns and order as they are at a first start."""
        usual = Settings()
        self._panels, self._share, self._enlarged = frozenset(usual.panels), usual.share, ""
        self.tables.chosen_columns = usual.columns
        self.tables.put_order(usual.sort, usual.descending)
        self._rearranged()
        self.say("layout, columns and order: as at first", "label")

    def show_panel(self, name: str) -> None:
        """Show the panel ``name`` if it is hidden."""
        if name not in self._panels:
            self.action_panel(name)

    def action_enlarge(self) -> None:
        """What has the keys, on the whole screen, or everything again."""
        self._enlarge("" if self._enlarged else "warnings" if self.panel.has_focus else "tables")

    def leave_warnings(self) -> None:
        """The keys go back to the tables, which are shown again if the warnings had the screen."""
        if self._enlarged == "warnings":
            self._enlarge("")
        if self.tables.display:
            self.tables.focus_main()
        else:
            self.say(f"the tables are hidden; {key('panel_table')} shows them", "dim")

    def action_share(self, percent: int) -> None:
        """Give the first of two tables more or less of the room."""
        if not self.tables.second.display:
            self.say("there is one table", "dim")
            return
        self._share = min(max(self._share + percent, LEAST_SHARE), MOST_SHARE)
        self._rearranged()
        self.say(f"the first table may take {self._share} %", "label")

    def _enlarge(self, what: Enlarged) -> None:
        self._enlarged = what
        self._rearranged()

    def _rearranged(self) -> None:
        self._arrange()
        self.call_after_refresh(self._refresh)
