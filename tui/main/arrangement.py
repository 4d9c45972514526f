"""Decides which panels the main screen shows and how large they are."""

from __future__ import annotations

from textual.screen import Screen

from stalltop.tui.main.filter_entry import ENDS_FROM
from stalltop.tui.main.layout import LEAST_HEIGHT, LEAST_WIDTH, Enlarged, ScreenLayout, layout
from stalltop.tui.problems.alert_panel import AlertPanel
from stalltop.tui.settings.settings import PANELS
from stalltop.tui.tables.sizes import TablesLayout
from stalltop.tui.tables.tables import Tables
from stalltop.widgets.alerts import AlertList, AlertRow
from stalltop.widgets.footer import KeyLine

_WIDGETS = {"host": "#system", "devices": "#devices", "warnings": "#alerts", "table": "#tables"}
"""Selectors of the panels' widgets, by the names in ``settings.PANELS``."""


class Arrangement:
    """Shows those panels of ``screen`` that the user wants and that the terminal has room for."""

    def __init__(self, screen: Screen[None]) -> None:
        self._screen = screen
        self.panels: frozenset[str] = frozenset(PANELS)
        """The panels that the user wants, by the names in ``settings.PANELS``."""
        self.share = 50
        """Percent of the room that the first of two tables may take."""
        self.enlarged: Enlarged = ""
        self.layout = ScreenLayout()
        """The panels and sizes for the current size of the terminal."""

    def fit(self) -> None:
        """Show the panels that fit into the terminal's current size."""
        screen = self._screen
        width, height = screen.app.size
        self.layout = layout(width, height, self.panels, self.enlarged)
        small = self.layout.small
        for name, selector in _WIDGETS.items():
            screen.query_one(selector).display = name in self.layout.shown
        screen.query_one("#ends").display = width >= ENDS_FROM
        screen.query_one("#header").display = not small
        answer = screen.query_one("#answer")
        answer.display = self.layout.answer > 0
        answer.styles.height = max(self.layout.answer, 1)
        self.show_keys()
        warning = screen.query_one("#small", AlertList)
        warning.display = small
        text = f"{width}x{height} is too small: {LEAST_WIDTH}x{LEAST_HEIGHT} is the least"
        warning.show([AlertRow("small", " ", "warn", text)])
        tables, panel = screen.query_one(Tables), screen.query_one(AlertPanel)
        shown = self.layout
        tables.lay_out(
            TablesLayout("second" in shown.shown, shown.beside, self.share, alone=shown.enlarged == "tables")
        )
        panel.room.fit(self.layout.warnings)
        if not tables.display and not small and not screen.query_one("#filter").display:
            screen.set_focus(panel)
        self.keep_focus()

    def keep_focus(self) -> None:
        """Focus a table if no widget has the focus. A widget loses the focus when it is hidden."""
        tables = self._screen.query_one(Tables)
        if self._screen.focused is None and not self.layout.small and tables.display:
            tables.focus_main()

    def show_keys(self) -> None:
        """Show the line of keys if the user wants it, or if it has a message."""
        keys = self._screen.query_one("#keys", KeyLine)
        wanted = "keys" in self.layout.shown and not self._screen.query_one("#filter").display
        keys.display = wanted or (bool(keys.said) and not self.layout.small)

    def show_filter(self, shown: bool) -> None:
        """With ``shown`` replace the line of keys by the line in which the user types a filter; otherwise
        show the line of keys again."""
        self._screen.query_one("#entry").display = shown
        self._screen.query_one("#filter").display = shown
        self.show_keys()
        self._screen.query_one(Tables).keys_elsewhere = shown
