"""The main screen: what is shown where, and what each key changes. Everything it knows comes by messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Label

from model.chain import Chain
from model.pivot import Dimension
from model.window import Window
from tui.alert_panel import AlertPanel
from tui.chain_screen import ChainScreen
from tui.collector import LENGTHS, Snapshot
from tui.filter_entry import FilterEntry
from tui.keys import bindings, footer
from tui.pages_screen import HelpScreen, WarningsScreen
from tui.status import header_state, length_text, silent_seconds
from tui.tables import Tables
from widgets.alerts import AlertList, AlertRow
from widgets.bars import SystemBars
from widgets.devices import DeviceRows
from widgets.footer import KeyLine
from widgets.header import Header

if TYPE_CHECKING:
    from tui.app import StalltopApp

LEAST_WIDTH, LEAST_HEIGHT = 40, 8
"""A smaller terminal shows one line that says so."""
SAID_SECONDS = 2.0
"""How long the screen says what a key has done, in place of the worst warning."""
READ_SECONDS = 6.0
"""How long it says where a file was saved, or what went wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class _Frozen:
    snapshot: Snapshot
    window: Window
    length: float | None


class MainScreen(Screen[None]):
    """Header, host, devices, what is wrong, one or two tables, keys."""

    BINDINGS = bindings("screen")
    AUTO_FOCUS = "#main"
    # What a mouse selects in full-screen programs is the terminal's business (with Shift held).
    ALLOW_SELECT = False

    def __init__(self, length: float | None) -> None:
        super().__init__()
        self._snapshot: Snapshot | None = None
        self._frozen: _Frozen | None = None
        self._length = length
        self._enlarged = False
        self._late = False
        """There is newer data than is shown: the line was too slow for it."""
        self._said: Timer | None = None

    @property
    def stalltop(self) -> StalltopApp:
        """The app, by its own type."""
        return cast("StalltopApp", self.app)

    @property
    def tables(self) -> Tables:
        """The tables."""
        return self.query_one("#tables", Tables)

    @property
    def panel(self) -> AlertPanel:
        """The list of what is wrong."""
        return self.query_one("#alerts", AlertPanel)

    def compose(self) -> ComposeResult:
        """Widgets from top to bottom."""
        unicode = self.stalltop.unicode
        yield Header("header", unicode=unicode)
        yield SystemBars("system", unicode=unicode)
        yield DeviceRows("devices", unicode=unicode)
        yield AlertPanel("alerts", unicode=unicode)
        yield Tables("tables", unicode=unicode)
        with Horizontal(id="entry"):
            yield Label("/", id="prompt")
            yield FilterEntry("filter")
        yield KeyLine("keys", unicode=unicode)
        yield AlertList("small", unicode=unicode)

    def on_mount(self) -> None:
        """Start the clock that notices silence; hide what is not asked for."""
        self.query_one("#small").can_focus = False
        self._show_entry(False)
        self.set_interval(1.0, self._every_second)
        self._arrange()
        self._refresh()

    # ---- data

    @property
    def shown(self) -> Window | None:
        """The window on the screen: the frozen one or the newest."""
        if self._frozen is not None:
            return self._frozen.window
        return self._snapshot.window if self._snapshot is not None else None

    def take(self, snapshot: Snapshot) -> None:
        """Show new data, unless the picture is frozen."""
        self._snapshot = snapshot
        self._late = self._frozen is None and self.stalltop.line_is_behind
        if self._frozen is None and not self._late:
            self._refresh()

    def computed(self, snapshot: Snapshot, length: float | None, window: Window) -> None:
        """A window of another length is there: show it if it is still the one that is wanted."""
        if self._length != length:
            return
        if self._frozen is not None:
            if self._frozen.snapshot is snapshot:
                self._frozen = _Frozen(snapshot, window, length)
                self._refresh()
        elif self._snapshot is snapshot:
            self._snapshot = replace(snapshot, window=window, length=length)
            self._refresh()

    def say(self, text: str, role: str = "good", seconds: float = SAID_SECONDS) -> None:
        """Say in the line of the worst warning, for some seconds, what was done."""
        if self._said is not None:
            self._said.stop()
        panel = self.panel
        self._said = self.set_timer(seconds, lambda: panel.say(""))
        panel.say(text, role)

    @on(Tables.Said)
    def _tables_said(self, message: Tables.Said) -> None:
        self.say(message.text, "dim")

    def _every_second(self) -> None:
        if self.stalltop.line_is_behind:
            return
        if self._late:
            self._late = False
            self._refresh()
        self._refresh_header()

    # ---- drawing

    def on_resize(self, event: events.Resize) -> None:
        """Show what the new size has room for."""
        self.panel.forget_height()
        self._arrange()
        self.call_after_refresh(self._refresh)

    def on_screen_resume(self) -> None:
        """Another screen lay on this one: catch up."""
        self._refresh()

    def _arrange(self) -> None:
        """Decide what is shown at this size."""
        width, height = self.app.size
        small = width < LEAST_WIDTH or height < LEAST_HEIGHT
        for widget in self.query("#header, #tables, #alerts"):
            widget.display = not small
        self.query_one("#keys").display = not small and not self.query_one("#filter").display
        for widget in self.query("#system, #devices"):
            widget.display = not small and not self._enlarged and height >= 12
        warning = self.query_one("#small", AlertList)
        warning.display = small
        text = f"{width}x{height} is too small: {LEAST_WIDTH}x{LEAST_HEIGHT} is the least"
        warning.show([AlertRow("small", " ", "warn", text)])
        self.tables.lay_out(enlarged=self._enlarged)
        self.panel.fit(enlarged=self._enlarged)

    def _refresh(self) -> None:
        """Show the window of now everywhere."""
        if not self.is_mounted or self.app.screen is not self:
            return
        window = self.shown
        self._refresh_alerts()
        self._refresh_header()
        self._refresh_keys()
        if window is None:
            return
        self.query_one("#system", SystemBars).show(window.system)
        self.query_one("#devices", DeviceRows).show(window.devices, max(self.app.size.height // 8, 1))
        self.tables.show(window, self.panel.found.open)

    def _refresh_keys(self) -> None:
        keys = footer(frozen=self._frozen is not None, warnings=self.panel.has_focus)
        self.query_one("#keys", KeyLine).show(keys)

    def _refresh_alerts(self) -> None:
        self.panel.update_from(self.shown, self.stalltop.options.notes)
        self.panel.fit(enlarged=self._enlarged)

    def _refresh_header(self) -> None:
        snapshot = self._frozen.snapshot if self._frozen is not None else self._snapshot
        options = self.stalltop.options
        silent = (
            0.0 if options.still else silent_seconds(self._snapshot, self.stalltop.began, options.interval)
        )
        state = header_state(
            self.shown,
            self._length,
            frozen_at=snapshot.window.end if self._frozen is not None and snapshot is not None else None,
            silent=silent,
            still=options.still,
            demo=options.demo,
            chains=self.panel.found.open,
        )
        self.query_one("#header", Header).show(state)

    # ---- keys: what is looked at

    def action_pivot(self, by: Dimension) -> None:
        """Group by ``by``."""
        self.tables.pivot(by)

    def action_out(self) -> None:
        """One step back: from the warnings to the tables, from a row to where it is in."""
        if self.panel.has_focus:
            self.tables.focus_main()
        else:
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

    def action_enlarge(self) -> None:
        """The table alone, or everything again."""
        self._enlarged = not self._enlarged
        self._arrange()
        self.call_after_refresh(self._refresh)

    # ---- keys: why

    def action_warnings(self) -> None:
        """The keys go to the list of what is wrong, or back to the tables."""
        if self.panel.has_focus:
            self.tables.focus_main()
        else:
            self.panel.focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The list of warnings is longer while it has the keys."""
        self.panel.fit(enlarged=self._enlarged)
        self._refresh_keys()

    @on(AlertList.Chosen)
    def _alert_chosen(self, message: AlertList.Chosen) -> None:
        chains = self.panel.found.chains
        at = next((at for at, chain in enumerate(chains) if chain.id == message.key), None)
        if at is None:
            self.app.push_screen(WarningsScreen(lambda: self.shown))
        else:
            self.app.push_screen(ChainScreen(chains, at))

    def _chain_here(self) -> Chain | None:
        """The chain under the cursor: of the list, or the worst one of a row. Says where there is none."""
        chain = self.panel.chain_here
        if not self.panel.has_focus:
            chain = next(iter(self.tables.chains_here()), None)
        if chain is None:
            self.say("no chain speaks of this line", "dim")
        return chain

    def action_chains(self) -> None:
        """From a row to its chains, from a chain to its row."""
        chain = self._chain_here()
        if chain is not None and self.panel.has_focus:
            self.look_at(chain)
        elif chain is not None:
            self.app.push_screen(ChainScreen(self.tables.chains_here()))

    def look_at(self, chain: Chain) -> None:
        """Put the cursor on the row that ``chain`` speaks of."""
        self.tables.look_at(chain)

    def silence(self, chain: Chain) -> str:
        """Hide ``chain``, or show it again; gives what is to be said about it."""
        said = self.panel.silence(chain)
        self._refresh()
        return said

    def action_silence(self) -> None:
        """Hide the chain here, or show it again."""
        chain = self._chain_here()
        if chain is not None:
            self.say(self.silence(chain), "label")

    def action_show_silenced(self) -> None:
        """Show chains that were hidden too, or hide them again."""
        said = self.panel.show_silenced()
        self._refresh()
        self.say(said, "label")

    def action_copy_fix(self) -> None:
        """Copy the command that helps against the chain here."""
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
        """Within the filter its key is text."""
        return not (action == "filter" and isinstance(self.focused, FilterEntry))

    def _show_entry(self, shown: bool) -> None:
        """Show the line for the filter in place of the line of keys, or the other way round."""
        self.query_one("#entry").display = shown
        self.query_one("#filter").display = shown
        self.query_one("#keys").display = not shown
        self.tables.keys_elsewhere = shown

    @on(FilterEntry.Changed, "#filter")
    def _filter_changed(self, message: FilterEntry.Changed) -> None:
        if self.query_one("#filter").display:
            self.tables.put_filter(message.value.strip())

    @on(FilterEntry.Submitted, "#filter")
    def _filter_done(self) -> None:
        self._leave_filter()

    @on(FilterEntry.Cleared)
    def _filter_cleared(self) -> None:
        self.tables.put_filter("")
        self._leave_filter()

    def _leave_filter(self) -> None:
        self._show_entry(False)
        self.set_focus(self.tables.main)
        self.tables.redraw()

    # ---- keys: time

    def action_freeze(self) -> str:
        """Hold the picture, or let it go; gives what is to be said about it."""
        if self._frozen is not None:
            self._frozen = None
            if self._snapshot is not None and self._snapshot.length != self._length:
                self.stalltop.compute(self._snapshot, self._length)
        elif self._snapshot is not None:
            self._frozen = _Frozen(self._snapshot, self._snapshot.window, self._length)
        self._refresh()
        return "frozen" if self._frozen is not None else "live"

    def action_window(self, step: int) -> None:
        """A longer (1) or shorter (-1) window."""
        if self.stalltop.options.still:
            self.say("a saved window has the one length that it was saved with", "label")
            return
        at = LENGTHS.index(self._length) if self._length in LENGTHS else 1
        length = LENGTHS[min(max(at + step, 0), len(LENGTHS) - 1)]
        if length == self._length:
            return
        self._length = length
        self.stalltop.choose_length(length)
        snapshot = self._frozen.snapshot if self._frozen is not None else self._snapshot
        if snapshot is not None:
            self.stalltop.compute(snapshot, length)
        self.say(f"window: {length_text(length)}", "label")
        self._refresh_header()

    # ---- keys: the rest

    def action_save(self) -> None:
        """Save the window on the screen."""
        if self.shown is None:
            self.say("there is nothing to save yet", "warn")
            return
        if self.stalltop.options.still:
            self.say("this window is saved already: it is the file that was opened", "label")
            return
        self.stalltop.save(self.shown)

    def action_help(self) -> None:
        """All keys."""
        self.app.push_screen(HelpScreen())

    def action_theme(self) -> None:
        """The next colours."""
        if self.app.no_color:
            self.say("NO_COLOR is set: there are no other colours to change to", "warn")
            return
        self.say(f"colours: {self.stalltop.next_theme()}", "label")

    def action_leave(self) -> None:
        """Leave."""
        self.stalltop.exit()
