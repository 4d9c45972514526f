"""The theme that is used, and the change to few colours for slow connections."""

from __future__ import annotations

from typing import Any

from textual.app import App

from stalltop.tui.settings.palettes import THEME_NAMES
from stalltop.tui.settings.theme import LETTERED, THEMES, chosen


class Colours:
    """Changes the theme of ``app``."""

    def __init__(self, app: App[Any], wanted: str) -> None:
        """``wanted`` is the value of the setting: the name of a theme, or ``auto``."""
        self._app = app
        self._wanted = wanted
        self._before_few = ""
        """The theme before the change to few colours; empty if there was no change."""
        for ours in THEMES:
            app.register_theme(ours)
        for name in list(app.available_themes):
            if name not in THEME_NAMES:
                app.unregister_theme(name)
        app.theme = chosen(wanted)

    @property
    def letters(self) -> bool:
        """Return whether bars consist of letters and patterns, because the theme or the terminal has too few
        colours for all parts."""
        few = self._app.console.color_system not in ("256", "truecolor")
        return few or self._app.no_color or self._app.theme in LETTERED

    @property
    def choice(self) -> str:
        """Return the value of the setting ``theme``: the one given at the start, unless the user has changed
        the theme with a key."""
        theme = self._before_few or self._app.theme
        return self._wanted if theme == chosen(self._wanted) else theme

    def few(self, few: bool) -> None:
        """Change to the terminal's own 16 colours, which need few bytes, or back."""
        if few and not self.letters:
            self._before_few, self._app.theme = self._app.theme, "terminal"
        elif not few and self._before_few:
            self._app.theme, self._before_few = self._before_few, ""

    def next(self) -> str:
        """Change to the next theme. Returns its name."""
        if not self._app.no_color:
            self.choose(THEME_NAMES[(THEME_NAMES.index(self._app.theme) + 1) % len(THEME_NAMES)])
        return self._app.theme

    def choose(self, name: str) -> None:
        """Change to the theme ``name``."""
        self._before_few, self._app.theme = "", name
