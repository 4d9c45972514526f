"""The key of the main screen that restores its usual layout."""

from __future__ import annotations

from dataclasses import replace

from stalltop.tui.main.view import MainView
from stalltop.tui.main_keys.filter_keys import FilterKeys
from stalltop.tui.main_keys.panels import PanelKeys
from stalltop.tui.main_keys.time_keys import TimeKeys
from stalltop.tui.settings.settings import Settings


class Reset:
    """Restores what the other keys of ``main`` changed."""

    def __init__(self, main: MainView, panels: PanelKeys, filter_keys: FilterKeys, time: TimeKeys) -> None:
        self._main = main
        self._panels = panels
        self._filter = filter_keys
        self._time = time

    def everything(self) -> None:
        """Restore the panels, the sizes of the tables, their columns and order, the filter, and the length of
        the window as at a first start."""
        main, usual = self._main, Settings()
        views = main.tables.views
        views.first = replace(views.first, only="")
        self._filter.clear()
        if not main.stalltop.options.still and main.moments.length != usual.window:
            self._time.choose_window(usual.window)
        self._panels.reset()
        main.speech.say("reset: panels, sizes, columns, order, filter and window", "label")
