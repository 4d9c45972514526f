"""Decides which panels the main screen shows and how large they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from textual.screen import Screen

from stalltop.tui.graphs.panels import GraphPanels
from stalltop.tui.keys.actions import key
from stalltop.tui.main.filter_entry import ENDS_FROM
from stalltop.tui.main.layout import LEAST_HEIGHT, LEAST_WIDTH, Enlarged, Needs, ScreenLayout, layout
from stalltop.tui.problems.alert_panel import AlertPanel
from stalltop.tui.settings.settings import PANELS
from stalltop.tui.tables.sizes import EVEN_SHARE, NO_DETAIL
from stalltop.tui.tables.tables import Tables
from stalltop.widgets.alerts import AlertList, AlertRow
from stalltop.widgets.answer import AnswerLines
from stalltop.widgets.bars import SystemBars
from stalltop.widgets.devices import DeviceRows
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.footer import KeyLine

_WIDGETS = {"host": "#system", "devices": "#devices", "warnings": "#alerts", "table": "#tables"}
"""Selectors of the panels' widgets, by the names in ``settings.PANELS``."""


class Arrangement:
    """Shows those panels of ``screen`` that the user wants and that the terminal has room for."""

    def __init__(self, screen: Screen[None], graphs: GraphPanels) -> None:
        self._screen = screen
        self._graphs = graphs
        self.panels: frozenset[str] = frozenset(PANELS)
        """The panels that the user wants, by the names in ``settings.PANELS``."""
        self.share = EVEN_SHARE
        """Percent of the room that the first of two tables may take."""
        self.plain = False
        """Whether panels have no frames."""
        self.enlarged: Enlarged = ""
        self.devices = 1
        """Lines that the list of devices needs to show all devices."""
        self.graphs = 0
        """The number of graphs that there are to show."""
        self.detail = NO_DETAIL
        """What the panel about the first problem, or about a row, needs."""
        self.timeline: Literal["", "roomy", "needed"] = ""
        """Whether there is a time line, and whether it is shown only where there is plenty of room."""
        self.caption = 0
        """Lines of the caption of a demonstration."""
        self._beside_at: object = None
        """The size of the terminal and the panels for which tables stood side by side last."""
        self.at: object = None
        """Identifies the window that is shown."""
        self.layout = ScreenLayout()
        """The panels and sizes for the current size of the terminal."""

    def fit(self) -> None:
        """Show the panels that fit into the terminal's current size, each as large as its content needs."""
        screen = self._screen
        width, height = screen.app.size
        tables = screen.query_one(Tables)
        shape = width, height, self.panels, self.enlarged, tables.views.first.by, tables.views.first.path
        needs = replace(self._needs(tables), beside=self._beside_at == shape)
        found = layout(
            *(width, height, self.panels, self.enlarged, needs),
            plain=self.plain,
            share=self.share,
            gives=tables.views.first.by != "operation",
        )
        self._beside_at = shape if found.beside else None
        if found != self.layout:
            self._apply(found, tables, width, height)
        else:
            tables.lay_out(found.tables)
        self.keep_focus()

    def _needs(self, tables: Tables) -> Needs:
        """Return what the panels need to show all of their content."""
        panel = self._screen.query_one("#alerts", AlertPanel)
        # The first lines of the screen show the worst problem, which the list leaves out.
        name = "problems" if panel.answering.chain is None or panel.has_focus else "other problems"
        panel.title = (self._badge("panel_warnings"), name, key("warnings"))
        keys = self._screen.query_one("#keys", KeyLine)
        return Needs(
            answer=self._screen.query_one("#answer", AnswerLines).wanted(self._screen.app.size.width),
            devices=self.devices,
            warnings=panel.room.need(self.at),
            tables=tables.needs(),
            graphs=self.graphs,
            detail=self.detail,
            caption=self.caption,
            timeline=self.timeline,
            keys=bool(keys.said) or self._screen.query_one("#filter").display,
            reading=panel.has_focus,
        )

    def _apply(self, found: ScreenLayout, tables: Tables, width: int, height: int) -> None:
        """Give each panel the size that it has in ``found``."""
        screen, small = self._screen, found.small
        self.layout = found
        for name, selector in _WIDGETS.items():
            screen.query_one(selector).display = name in found.shown
        screen.query_one("#ends").display = width >= ENDS_FROM
        screen.query_one("#header").display = not small
        screen.query_one("#alerts").display = found.warnings > 0
        screen.query_one("#timeline").display = bool(found.timeline)
        screen.query_one("#caption").display = found.caption > 0
        answer = screen.query_one("#answer")
        answer.display, answer.styles.height = found.answer > 0, max(found.answer, 1)
        warning = screen.query_one("#small", AlertList)
        warning.display = small
        text = f"{width}x{height} is too small: {LEAST_WIDTH}x{LEAST_HEIGHT} is the least"
        warning.show([AlertRow("small", " ", "warn", text)])
        self._name_panels()
        for selector, lines, frame in (
            ("#system", found.host, found.host_frame),
            ("#devices", found.devices, found.devices_frame),
            ("#alerts", found.warnings, found.warnings_frame),
        ):
            widget = screen.query_one(selector, Lines)
            widget.frame = frame
            if lines and (widget.styles.height is None or widget.styles.height.value != lines):
                widget.styles.height = lines
        self.show_keys()
        tables.lay_out(found.tables)
        if not tables.display and not small and not screen.query_one("#filter").display:
            screen.set_focus(screen.query_one("#alerts"))

    def _name_panels(self) -> None:
        """Give each panel its title. Before the title is the key that shows and hides the panel. Of several
        panels with one key, the first one shows it."""
        screen = self._screen
        host, devices, table, second, graphs = (
            self._badge(name)
            for name in ("panel_host", "panel_devices", "panel_table", "panel_second", "graphs")
        )
        screen.query_one("#system", SystemBars).title = (host, "host", key("devices"))
        screen.query_one("#devices", DeviceRows).title = (devices, "GPUs", key("devices"))
        tables = screen.query_one(Tables)
        tables.main.badge, tables.second.badge = table, second
        self._graphs.widgets[0].badge = graphs

    def _badge(self, action: str) -> str:
        """Return the key of an action as a small digit; if there is no glyph for that, the key and a
        blank."""
        name, digits = key(action), self._graphs.widgets[0].glyphs.panel_digits
        if len(name) != 1 or name not in "0123456789" or digits[int(name)] == name:
            return f"{name} "
        return digits[int(name)]

    def keep_focus(self) -> None:
        """Focus a table if no widget has the focus. A widget loses the focus when it is hidden."""
        tables = self._screen.query_one(Tables)
        if self._screen.focused is None and not self.layout.small and tables.display:
            tables.focus_main()

    def show_keys(self) -> None:
        """Show the line of keys if the user wants it, or if it has a message."""
        keys = self._screen.query_one("#keys", KeyLine)
        typed = self._screen.query_one("#filter").display
        wanted = "keys" in self.layout.shown and not typed
        keys.display = (wanted or bool(keys.said)) and not self.layout.small

    def show_filter(self, shown: bool) -> None:
        """With ``shown`` replace the line of keys by the line in which the user types a filter; otherwise
        show the line of keys again."""
        self._screen.query_one("#entry").display = shown
        self._screen.query_one("#filter").display = shown
        self._screen.query_one(Tables).keys_elsewhere = shown
        self.show_keys()
        self.fit()
