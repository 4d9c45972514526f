"""The main screen without its keys: its widgets, and how it handles new data."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Label

from stalltop.model.merge.packing import Packed
from stalltop.model.window import Window
from stalltop.tui.graphs.panels import GraphPanels
from stalltop.tui.main.arrangement import Arrangement
from stalltop.tui.main.drawing import Drawing
from stalltop.tui.main.filter_entry import ENDS, FilterEntry
from stalltop.tui.main.opens import Opens
from stalltop.tui.main.speech import Speech
from stalltop.tui.main.updates import Updates
from stalltop.tui.past.moments import LIVE, OF_FILE, Moments
from stalltop.tui.problems.alert_panel import AlertPanel
from stalltop.tui.screens.bases import AppScreen
from stalltop.tui.settings.settings import PANELS
from stalltop.tui.tables.tables import Tables
from stalltop.widgets.alerts import AlertList
from stalltop.widgets.answer import AnswerLines
from stalltop.widgets.bars import SystemBars
from stalltop.widgets.caption import CaptionLines
from stalltop.widgets.devices import DeviceRows
from stalltop.widgets.footer import KeyLine
from stalltop.widgets.header import Header
from stalltop.widgets.page import TextPanel
from stalltop.widgets.timeline import Timeline

STARTING_SECONDS = 0.25
"""Seconds between two updates of the progress while there is no data."""


class MainView(AppScreen):
    """The main screen: header, host, devices, problems, one to three tables, time line and keys."""

    AUTO_FOCUS = "#main"
    # Users select text with their terminal (mouse with Shift held), not with Textual.
    ALLOW_SELECT = False

    def __init__(self, length: float | None, opens: Opens, *, file: bool = False) -> None:
        """``length`` is the length of the window in seconds; None: since the start. ``opens`` opens other
        pages. ``file``: a recording is shown."""
        super().__init__()
        self.opens = opens
        self.panel = AlertPanel("alerts")
        """The list of problems."""
        self.graphs = GraphPanels()
        self.tables = Tables("tables", (*self.graphs.widgets, TextPanel("detail")))
        self.moments = Moments(length, OF_FILE if file else LIVE)
        """Selects the moment that is shown."""
        self.file = file
        self.arrangement = Arrangement(self, self.graphs)
        self.tables.fit = self.arrangement.fit
        self.speech = Speech(self, self.arrangement)
        self.drawing = Drawing(self, self.moments, self.arrangement, self.graphs, opens, file=file)
        self.updates = Updates(self, self.moments, self.drawing, self.speech, file=file)

    def compose(self) -> ComposeResult:
        """Yield the widgets from top to bottom."""
        yield AnswerLines("answer")  # on top, because eyes begin there
        yield Header("header")
        yield CaptionLines("caption")
        yield SystemBars("system")
        yield DeviceRows("devices")
        yield self.panel
        yield self.tables
        # The time line is at the bottom, so that nothing else moves when it appears.
        yield Timeline("timeline")
        with Horizontal(id="entry"):
            yield Label("/", id="prompt")
            yield FilterEntry("filter")
            yield Label(ENDS, id="ends")
        yield KeyLine("keys")
        yield AlertList("small")

    def on_mount(self) -> None:
        """Start the timers, hide the panels that are not wanted, and draw the screen."""
        self.query_one("#small").can_focus = False
        self.arrangement.show_filter(False)
        self.set_interval(1.0, self.updates.every_second)
        self._starting = self.set_interval(STARTING_SECONDS, self._while_starting)
        options = self.stalltop.options
        self.arrangement.panels, self.arrangement.share = frozenset(options.panels), options.share
        self.arrangement.plain, self.graphs.wanted = options.plain, options.graphs
        self.tables.views.chosen_columns = options.columns
        self.tables.put_order(options.sort, options.descending)
        self.arrangement.fit()
        self.drawing.everything()
        self.call_after_refresh(self.updates.begin_tour)  # the first data may have arrived already

    # ---- data

    @property
    def shown(self) -> Window | None:
        """Return the window on the screen: the frozen one or the newest."""
        return self.moments.window

    @property
    def past(self) -> Sequence[Packed]:
        """Return the kept windows, oldest first. While the screen is frozen, some of them may be later than
        the window on the screen."""
        return self.moments.past

    def choices(self) -> dict[str, object]:
        """Return the current values of the settings that keys can change."""
        if not self.is_mounted or not self.query("#tables"):
            return {}  # the screen is being built or removed
        sort, descending = self.tables.views.order
        return {
            "window": self.moments.length,
            "theme": self.stalltop.colours.choice,
            "panels": tuple(name for name in PANELS if name in self.arrangement.panels),
            "graphs": self.graphs.wanted,
            "share": self.arrangement.share,
            "sort": sort,
            "descending": descending,
            "columns": self.tables.views.chosen_columns,
            "tour": self.stalltop.options.tour and (self.file or not self.updates.tour.shown),
        }

    # ---- events

    @on(Tables.ViewChanged)
    def _tables_looked(self) -> None:
        if self.drawing.whole:
            self.drawing.keys()

    @on(Tables.MessageWanted)
    def _tables_said(self, message: Tables.MessageWanted) -> None:
        self.speech.say(message.text, "dim")

    def _while_starting(self) -> None:
        if self.shown is not None:
            self._starting.stop()
        elif self.drawing.whole:
            self.drawing.alerts()

    def on_resize(self, event: events.Resize) -> None:
        """Show what fits into the new size."""
        self.panel.room.forget_height()
        self.arrangement.fit()
        self.call_after_refresh(self.drawing.everything)

    def on_screen_resume(self) -> None:
        """Draw again after another screen covered this one."""
        self.drawing.everything()

    def on_descendant_blur(self) -> None:
        """Focus a table if the focused widget was hidden."""
        self.arrangement.keep_focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Give the list of problems more lines while it has the focus."""
        self.arrangement.fit()
        self.drawing.keys()
