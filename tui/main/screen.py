"""The main screen: what each key changes."""

from __future__ import annotations

from textual import on

from stalltop.model.chain import Chain
from stalltop.model.rows.pivot import Dimension
from stalltop.tui.chain.screen import ChainScreen
from stalltop.tui.chain.warnings_screen import WarningsScreen
from stalltop.tui.filter_entry import FilterEntry
from stalltop.tui.keys import TYPED, bindings
from stalltop.tui.main.actions_details import DetailActions
from stalltop.tui.main.actions_line import LineActions
from stalltop.tui.main.actions_panels import PanelActions
from stalltop.tui.main.actions_play import PlayActions
from stalltop.tui.main.actions_record import RecordActions
from stalltop.tui.main.actions_save import READ_SECONDS, SaveActions
from stalltop.tui.main.actions_view import ViewActions
from stalltop.widgets.alerts import AlertList


class MainScreen(
    ViewActions, PanelActions, DetailActions, SaveActions, RecordActions, PlayActions, LineActions
):
    """The main screen with its keys."""

    BINDINGS = bindings("screen")

    _came_from = ""
    """Id of the chain that led to a row last."""

    # ---- keys: what is looked at

    def action_pivot(self, by: Dimension) -> None:
        """Group by ``by``."""
        self.tables.pivot(by)

    def action_out(self) -> None:
        """One step back: from the warnings to the tables, from what changed to what is, from a row to where
        it is in."""
        if self.panel.has_focus:
            self.leave_warnings()
        elif not self.stop_comparing():
            self.tables.out()

    def action_sort(self, step: int) -> None:
        """Sort by the next or previous column."""
        self.tables.sort(step)

    def action_reverse(self) -> None:
        """Turn the order round."""
        self.tables.reverse()

    def action_other(self) -> None:
        """The keys go to the other table."""
        self.tables.other()

    # ---- keys: why

    def action_warnings(self) -> None:
        """The keys go to the list of what is wrong, or back to the tables."""
        if self.panel.has_focus:
            self.leave_warnings()
        else:
            self.show_panel("warnings")
            # Now, not with the next message: Enter may follow at once.
            self.set_focus(self.panel)

    @on(AlertList.Chosen)
    def _alert_chosen(self, message: AlertList.Chosen) -> None:
        chains = self.panel.found.chains
        at = next((at for at, chain in enumerate(chains) if chain.id == message.key), None)
        if at is None:
            self.app.push_screen(WarningsScreen())
        else:
            self.app.push_screen(ChainScreen(chains, at))

    def _chain_here(self) -> Chain | None:
        """The chain under the cursor: of the list, or the worst one of a row. Says where there is none."""
        chain = self.panel.chain_here
        if not self.panel.has_focus:
            chain = next(iter(self._row_chains()), None)
        if chain is None:
            self.say("no chain speaks of this line", "dim")
        return chain

    def action_chains(self) -> None:
        """From a row to its chains, from a chain to its row."""
        chain = self._chain_here()
        if chain is not None and self.panel.has_focus:
            self.to_row(chain)
        elif chain is not None:
            self.app.push_screen(ChainScreen(self._row_chains()))

    def to_row(self, chain: Chain) -> None:
        """Put the cursor on the row that ``chain`` loses its time in, from where the same key leads back."""
        self._came_from = chain.id
        self.tables.look_at(chain)

    def _row_chains(self) -> list[Chain]:
        """The chains of the row under the cursor: the one that led to it, then the worst one first."""
        return sorted(self.tables.chains_here(), key=lambda chain: chain.id != self._came_from)

    def silence(self, chain: Chain) -> str:
        """Hide ``chain``, or show it again; gives what is to be said about it."""
        said = self.panel.silence(chain)
        self._refresh()
        return said

    def action_silence(self) -> None:
        """Hide the chain here, or show it again; so too a line of what is not traced."""
        if self.panel.has_focus and self.panel.stands_here:
            said = self.panel.silence_here()
            self._refresh()
            self.say(said, "label")
            return
        chain = self._chain_here()
        if chain is not None:
            self.say(self.silence(chain), "label")

    def action_show_silenced(self) -> None:
        """Show chains that were hidden too, or hide them again."""
        said = self.panel.show_silenced()
        self._refresh()
        self.say(said, "label")

    def action_copy_fix(self) -> None:
        """Copy the command that helps against the chain here; just after a file was saved, its path."""
        if self.copy_path():
            return
        chain = self._chain_here()
        if chain is not None:
            self.say(self.stalltop.copy_fix(chain), "label", READ_SECONDS)

    # ---- keys: filter

    def action_filter(self) -> None:
        """Type a filter; the table follows every letter."""
        entry = self.query_one("#filter", FilterEntry)
        entry.value = self.tables.filter
        self._show_entry(True)
        # Now, not with the next message: what follows at once, as in a paste, is text and no command.
        self.set_focus(entry)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Within the filter its key is text, and so are those of other lines."""
        return not (action in TYPED and isinstance(self.focused, FilterEntry))

    @on(FilterEntry.Changed, "#filter")
    def _filter_changed(self, message: FilterEntry.Changed) -> None:
        if self.query_one("#filter").display:
            self.tables.put_filter(message.value.strip())

    @on(FilterEntry.Cleared)
    def _filter_cleared(self) -> None:
        self.tables.put_filter("")
        self._leave_filter()

    @on(FilterEntry.Submitted, "#filter")
    def _leave_filter(self) -> None:
        self._show_entry(False)
        self.set_focus(self.tables.main)
        self.tables.redraw()

    # ---- keys: the rest

    def action_theme(self) -> None:
        """The next colours."""
        if self.app.no_color:
            self.say("NO_COLOR is set: there are no other colours to change to", "warn")
            return
        self.say(f"colours: {self.stalltop.next_theme()}", "label")

    def action_choose_theme(self, name: str) -> None:
        """The colours of this name."""
        if self.app.no_color:
            self.action_theme()  # says why there are none
            return
        self.stalltop.choose_theme(name)
        self.say(f"colours: {name}", "label")

    def action_leave(self) -> None:
        """Leave."""
        self.stalltop.exit()
