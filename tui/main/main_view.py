"""What the main screen shows, and where. Everything it knows comes by messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, cast

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Label

from stalltop.model.devices.device import Devices
from stalltop.model.merge.packing import Packed
from stalltop.model.window import Window
from stalltop.tui.collector import Snapshot
from stalltop.tui.filter_entry import ENDS, ENDS_FROM, FilterEntry
from stalltop.tui.keys import footer
from stalltop.tui.main import tour
from stalltop.tui.main.alert_panel import AlertPanel
from stalltop.tui.main.layout import LEAST_HEIGHT, LEAST_WIDTH, Enlarged, Layout, layout, time_shown
from stalltop.tui.main.slow_line import SlowLine, offer
from stalltop.tui.main.status import header_state, recording_text, silent_seconds, starting_text
from stalltop.tui.pages.screens import PageScreen
from stalltop.tui.past.moments import LIVE, OF_FILE, Moments, Picture
from stalltop.tui.past.recall import timespan
from stalltop.tui.settings.settings import PANELS
from stalltop.tui.tables.row_tables import RowTables
from stalltop.tui.tables.tables import Tables
from stalltop.widgets.alerts import AlertList, AlertRow
from stalltop.widgets.bars import SystemBars
from stalltop.widgets.devices import PAST_CELLS, DeviceRows
from stalltop.widgets.footer import KeyLine
from stalltop.widgets.header import Header, HeaderState
from stalltop.widgets.timeline import Timeline

if TYPE_CHECKING:
    from stalltop.tui.app import StalltopApp

OFFER_SECONDS = 8.0
"""How long the screen offers to draw less; a slow line shows it late."""
NEWS_SECONDS = 6.0
"""The same, of what happened to a recording."""
STARTING_SECONDS = 0.25
"""How often the screen says what is done, until there is data."""
SAID_SECONDS = 2.0
"""How long the screen says what a key has done, in place of the keys."""


class MainView(Screen[None]):
    """Header, host, devices, what is wrong, one or two tables, keys."""

    AUTO_FOCUS = "#main"
    # What a mouse selects in full-screen programs is the terminal's business (with Shift held).
    ALLOW_SELECT = False

    def __init__(self, length: float | None, *, file: bool = False) -> None:
        """``length``: seconds of a window, None: since the start; ``file``: a recording is shown."""
        super().__init__()
        self.moments = Moments(length, OF_FILE if file else LIVE)
        """Which moment is looked at."""
        self.file = file
        self.playing = 0.0
        """Seconds of the past that pass in one; 0: it stands still."""
        self._panels: frozenset[str] = frozenset(PANELS)
        """What is wanted on the screen, by the names of ``tui.settings.settings``."""
        self._share = 50
        self._enlarged: Enlarged = ""
        self._layout = Layout()
        self._late = False
        """There is newer data than is shown: the line was too slow for it."""
        self.slow_line = SlowLine()
        self._said: Timer | None = None
        self.said = 0
        """How often it was said what was done."""
        self._alerts_of: Window | None = None
        """What the list of what is wrong was made of last."""
        self._touring = False
        self._toured = False
        """The line for newcomers was shown."""

    @property
    def stalltop(self) -> StalltopApp:
        """The app, by its own type."""
        return cast("StalltopApp", self.app)

    @property
    def tables(self) -> RowTables:
        """The tables."""
        return self.query_one("#tables", RowTables)

    @property
    def panel(self) -> AlertPanel:
        """The list of what is wrong."""
        return self.query_one("#alerts", AlertPanel)

    @property
    def whole(self) -> bool:
        """Whether all of it is there to be drawn: not while it is made, nor while the program ends, when some
        parts are gone already and another window may come."""
        return self.is_mounted and self.display and bool(self.query("#keys"))

    def compose(self) -> ComposeResult:
        """Widgets from top to bottom."""
        unicode = self.stalltop.unicode
        yield Header("header", unicode=unicode)
        yield SystemBars("system", unicode=unicode)
        yield DeviceRows("devices", unicode=unicode)
        yield AlertPanel("alerts", unicode=unicode)
        yield RowTables("tables", unicode=unicode)
        # At the bottom: what lies above does not move when it comes and goes.
        yield Timeline("timeline", unicode=unicode)
        with Horizontal(id="entry"):
            yield Label("/", id="prompt")
            yield FilterEntry("filter")
            yield Label(ENDS, id="ends")
        yield KeyLine("keys", unicode=unicode)
        yield AlertList("small", unicode=unicode)

    def on_mount(self) -> None:
        """Start the clock that notices silence; hide what is not asked for."""
        self.query_one("#small").can_focus = False
        self._show_entry(False)
        self.set_interval(1.0, self._every_second)
        self._starting = self.set_interval(STARTING_SECONDS, self._while_starting)
        options = self.stalltop.options
        self.slow_line.low = options.low_bandwidth
        self._panels, self._share = frozenset(options.panels), options.share
        self.tables.chosen_columns = options.columns
        self.tables.put_order(options.sort, options.descending)
        self._arrange()
        self._refresh()
        self.call_after_refresh(self._tour)  # the first data may be there already

    # ---- data

    @property
    def shown(self) -> Window | None:
        """The window on the screen: the frozen one or the newest."""
        return self.moments.window

    @property
    def frozen(self) -> bool:
        """Whether the picture is held."""
        return self.moments.frozen

    @property
    def past(self) -> Sequence[Packed]:
        """The windows that are at hand, oldest first; frozen, also those after the one that is shown."""
        return self.moments.past

    @property
    def notes(self) -> tuple[str, ...]:
        """What the program has to say beyond the window, one line each."""
        newest = self.moments.newest
        return self.stalltop.options.notes + (() if newest is None else newest.kept.notes)

    def take(self, snapshot: Snapshot) -> None:
        """Show new data, unless the picture is frozen."""
        first = self.moments.newest is None
        self.moments.newest = snapshot
        if first:
            self._begin()
        behind = self.stalltop.line_is_behind
        if behind and self.slow_line.left_out():
            self.say(offer(), "warn", OFFER_SECONDS)
        self._late = behind or not self.slow_line.due
        if self._late:
            return
        if self.moments.frozen:
            self._refresh_time()
        else:
            self._refresh()
        self._tour()

    def _begin(self) -> None:
        """The first data: go to the moment that was asked for, with the length that is wanted."""
        at = self.stalltop.options.at
        if at is not None:
            self.moments.go_to(at)
        if self.moments.wanted is not None:
            self.show_moment()

    def made(self, turn: int, picture: Picture) -> None:
        """A picture that was asked for is there: show it if it is still of use."""
        if self.moments.made(turn, picture):
            self._refresh()

    def show_moment(self) -> None:
        """Show the moment that was chosen; where its picture is still to be made, it follows."""
        asked = self.moments.ask()
        if asked is not None:
            self.stalltop.make(asked)
        self._refresh()

    def _tour(self) -> None:
        """Name the first few keys, until one is pressed: of a recording each time, else only where it is kept
        that this was done."""
        options, newest, width = self.stalltop.options, self.moments.newest, self.app.size.width
        if self._toured or newest is None or not self.whole:
            return
        if self.file:
            self.say(tour.of_file(newest.kept.stretch, width), "accent", tour.FILE_SECONDS)
            self._touring = self._toured = True
        elif options.tour and options.keep is not None:
            self.say(tour.for_newcomers(width), "accent", tour.NEWCOMER_SECONDS)
            self._touring = self._toured = True

    def end_tour(self) -> None:
        """A key was pressed: whoever pressed it can do without."""
        self._toured |= self.file  # too late for the line of a file
        if self._touring:
            self._touring = False
            self.say("")

    def say(self, text: str, role: str = "good", seconds: float | None = None) -> None:
        """Say over the keys, for some seconds, what was done; or on the page upon this screen."""
        if isinstance(self.app.screen, PageScreen):
            self.app.screen.say(text)
        self._touring = False
        self.said += 1
        if self._said is not None:
            self._said.stop()
        self._said = self.set_timer(SAID_SECONDS if seconds is None else seconds, self.hush)
        self._say(text, role)

    def hush(self) -> None:
        """Show the keys again where something is said."""
        self._say("", "good")

    def _say(self, text: str, role: str) -> None:
        if self.whole:
            self.query_one("#keys", KeyLine).say(text, role)
            self._show_keys()

    def _show_keys(self) -> None:
        """Show the line of keys where it is wanted, or has something to say."""
        keys = self.query_one("#keys", KeyLine)
        wanted = "keys" in self._layout.shown and not self.query_one("#filter").display
        keys.display = wanted or (bool(keys.said) and not self._layout.small)

    @on(Tables.Looked)
    def _tables_looked(self) -> None:
        if self.whole:
            self._refresh_keys()

    @on(Tables.Said)
    def _tables_said(self, message: Tables.Said) -> None:
        self.say(message.text, "dim")

    def _while_starting(self) -> None:
        if self.shown is not None:
            self._starting.stop()
        elif self.whole:
            self._refresh_alerts()

    def _every_second(self) -> None:
        if not self.whole:
            return
        recorded = self.stalltop.options.recorded
        news = recorded.news() if recorded is not None else []
        if news:
            self.say("; ".join(news), "label", NEWS_SECONDS)
        if self.stalltop.line_is_behind:
            return
        if self._late and self.slow_line.due:
            self._late = False
            self._refresh()
        else:
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

    def choices(self) -> dict[str, object]:
        """The settings that keys can change, as they are now."""
        if not self.is_mounted or not self.query("#tables"):
            return {}  # the screen is not whole yet, or no longer
        sort, descending = self.tables.order
        return {
            "window": self.moments.length,
            "theme": self.stalltop.theme_choice,
            "panels": tuple(name for name in PANELS if name in self._panels),
            "share": self._share,
            "sort": sort,
            "descending": descending,
            "columns": self.tables.chosen_columns,
            "tour": self.stalltop.options.tour and (self.file or not self._toured),
        }

    def _arrange(self) -> None:
        """Decide what is shown at this size."""
        width, height = self.app.size
        self._layout = place = layout(width, height, self._panels, self._enlarged)
        panels = {"host": "#system", "devices": "#devices", "warnings": "#alerts", "table": "#tables"}
        for name, selector in panels.items():
            self.query_one(selector).display = name in place.shown
        typing = self.query_one("#filter").display
        self.query_one("#ends").display = width >= ENDS_FROM
        self.query_one("#header").display = not place.small
        self._show_keys()
        warning = self.query_one("#small", AlertList)
        warning.display = place.small
        text = f"{width}x{height} is too small: {LEAST_WIDTH}x{LEAST_HEIGHT} is the least"
        warning.show([AlertRow("small", " ", "warn", text)])
        self.tables.lay_out(place, share=self._share)
        self.panel.fit(place.warnings)
        if not self.tables.display and not place.small and not typing:
            self.set_focus(self.panel)
        self._keep_focus()

    def on_descendant_blur(self) -> None:
        """What had the keys may have been hidden."""
        self._keep_focus()

    def _keep_focus(self) -> None:
        """Keys go to a table where nothing has them: what is hidden, as on a small terminal, loses them."""
        if self.focused is None and not self._layout.small and self.tables.display:
            self.tables.focus_main()

    def _refresh(self) -> None:
        """Show the window of now everywhere."""
        if not self.whole or self.app.screen is not self:
            return
        window = self.shown
        self._refresh_alerts()
        self._refresh_time()
        self._refresh_keys()
        if window is None:
            return
        self.slow_line.drawn()
        self.query_one("#system", SystemBars).show(window.system)
        self.query_one("#devices", DeviceRows).show(
            window.devices, self._layout.devices, self._devices_before(window)
        )
        past = () if self.stalltop.options.still else self.past
        newest = self.moments.newest
        normals = newest.newest.normals if newest is not None else {}
        self.tables.show(window, self.panel.found.open, self.moments.against, past, normals)

    def _devices_before(self, window: Window) -> list[Devices]:
        """The devices in what is kept up to the end of ``window``, oldest first, where that is drawn."""
        if not (self._layout.history and self.stalltop.pictures):
            return []
        before = (part.window for part in reversed(self.past) if part.window.end <= window.end + 1e-3)
        return [one.devices for one in islice(before, PAST_CELLS)][::-1]

    def _refresh_keys(self) -> None:
        keys = footer(
            warnings=self.panel.has_focus,
            frozen=self.frozen,
            still=self.stalltop.options.still,
            file=self.file,
            out="Back" if self.moments.comparing else self.tables.way_out,
            enlarged=bool(self._enlarged),
        )
        self.query_one("#keys", KeyLine).show(keys)

    def _refresh_alerts(self) -> None:
        self._alerts_of = self.shown
        progress = self.stalltop.options.progress
        step = progress.step if progress is not None and self.shown is None else None
        starting = starting_text(step, unicode=self.stalltop.unicode)
        self.panel.update_from(self.shown, self.notes, starting)
        self.panel.fit(self._layout.warnings)

    def header_now(self) -> HeaderState:
        """What the first line says now, here and on the pages that lie on this screen."""
        if self._alerts_of is not self.shown:
            self._refresh_alerts()  # nothing else does while a page lies on this screen
        options, moments = self.stalltop.options, self.moments
        silent = silent_seconds(moments.newest, self.stalltop.began, options.interval)
        if self.shown is None and options.progress is not None and options.progress.step is not None:
            silent = 0.0  # the first line of what is wrong says what it waits for
        state = header_state(
            self.shown,
            moments.length,
            frozen_at=moments.at,
            age=moments.age,
            pending=moments.wanted is not None,
            began=moments.newest.began if moments.newest is not None else None,
            silent=0.0 if options.still or self.file else silent,
            still=options.still,
            file=self.file,
            grows=moments.newest is not None and moments.newest.grows,
            playing=self.playing,
            demo=options.demo,
            chains=self.panel.found.open,
            unicode=self.stalltop.unicode,
        )
        recorded = options.recorded
        if recorded is not None:
            recording = recording_text(recorded.state, unicode=self.stalltop.unicode)
            state = replace(state, recording=recording)
        return state

    def _refresh_header(self) -> None:
        self.query_one("#header", Header).show(self.header_now())

    def _refresh_time(self) -> None:
        """Show where the moment shown is in time; that changes also while the picture does not."""
        if not self.whole:
            return
        self._refresh_header()
        line = self.query_one("#timeline", Timeline)
        moments = self.moments
        wanted = moments.frozen or moments.comparing or self.file
        shown = time_shown(self._layout, wanted=wanted)
        line.display = shown and not self.stalltop.options.still and moments.newest is not None
        if line.display and moments.newest is not None:
            mark = moments.mark.at if moments.mark is not None else None
            past = moments.newest.kept.stretch
            line.show(timespan(past, moments.at, mark, moments.span, all_of_it=self.file))

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The list of warnings is longer while it has the keys."""
        self.panel.fit(self._layout.warnings)
        self._refresh_keys()

    def _show_entry(self, shown: bool) -> None:
        """Show the line for the filter in place of the line of keys, or the other way round."""
        self.query_one("#entry").display = shown
        self.query_one("#filter").display = shown
        self._show_keys()
        self.tables.keys_elsewhere = shown
