"""What the main screen shows, and where. Everything it knows comes by messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Label

from model.window import Window
from tui.alert_panel import AlertPanel
from tui.collector import Snapshot
from tui.filter_entry import FilterEntry
from tui.keys import footer
from tui.status import header_state, silent_seconds
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


@dataclass(frozen=True, slots=True, eq=False)
class Frozen:
    """A picture that is held."""

    snapshot: Snapshot
    window: Window
    length: float | None


class MainView(Screen[None]):
    """Header, host, devices, what is wrong, one or two tables, keys."""

    AUTO_FOCUS = "#main"
    # What a mouse selects in full-screen programs is the terminal's business (with Shift held).
    ALLOW_SELECT = False

    def __init__(self, length: float | None) -> None:
        super().__init__()
        self._snapshot: Snapshot | None = None
        self._frozen: Frozen | None = None
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
                self._frozen = Frozen(snapshot, window, length)
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

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The list of warnings is longer while it has the keys."""
        self.panel.fit(enlarged=self._enlarged)
        self._refresh_keys()

    def _show_entry(self, shown: bool) -> None:
        """Show the line for the filter in place of the line of keys, or the other way round."""
        self.query_one("#entry").display = shown
        self.query_one("#filter").display = shown
        self.query_one("#keys").display = not shown
        self.tables.keys_elsewhere = shown
