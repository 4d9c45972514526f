"""The themes, made from ``PALETTES``, and the choice of the one to start with."""

from __future__ import annotations

import os

from textual.theme import BUILTIN_THEMES, Theme

from stalltop.tui.settings.palettes import PALETTES, THEME_NAMES


def _theme(name: str, roles: dict[str, str], *, dark: bool) -> Theme:
    """Return a theme. Textual's own widgets (the filter's line and the palette) use the colours of the
    roles."""

    def colour(role: str) -> str:
        return roles[f"role-{role}"].split()[-1]

    background = roles.get("role-ground", "").partition(" on ")[2]
    panel = roles["role-bar"].partition(" on ")[2]
    ansi = not background
    if ansi:
        background = panel = "ansi_default"
    return Theme(
        name,
        primary=colour("accent"),
        secondary=colour("label"),
        accent=colour("accent"),
        warning=colour("warn"),
        error=colour("bad"),
        success=colour("good"),
        foreground=colour("text"),
        background=background,
        surface=background,
        panel=panel,
        boost="ansi_default" if ansi else None,
        dark=dark,
        ansi=ansi,
        # With the terminal's own colours, Textual's widgets need these variables too.
        variables={**BUILTIN_THEMES["ansi-dark"].variables, **roles} if ansi else roles,
    )


THEMES = tuple(_theme(name, roles, dark=name != "light") for name, roles in PALETTES.items())
LETTERED = ("terminal", "mono")
"""Themes in which the parts of a bar have no colours, but letters and patterns."""


def many_colours() -> bool:
    """Return whether the terminal reports more than 16 colours and the user wants colours."""
    if os.environ.get("NO_COLOR"):
        return False
    term = os.environ.get("TERM", "")
    return bool(os.environ.get("COLORTERM")) or any(word in term for word in ("256", "direct", "kitty"))


def chosen(wanted: str) -> str:
    """Return the name of the theme to start with: ``wanted`` if there is such a theme, else one that fits the
    terminal; with NO_COLOR always ``mono``."""
    if os.environ.get("NO_COLOR"):
        return "mono"
    if wanted in THEME_NAMES:
        return wanted
    return "dark" if many_colours() else "terminal"
