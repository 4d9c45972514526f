"""Colours. Levels differ in brightness and in blue against orange, never in red against green alone."""

from __future__ import annotations

import os

from textual.theme import BUILTIN_THEMES, Theme

_DARK = {
    "role-ground": "#d7dde3 on #11161b",
    "role-text": "#d7dde3",
    "role-dim": "#84909c",
    "role-label": "#8fb0cc",
    "role-head": "bold #9ed2ff",
    "role-accent": "#5fb4f5",
    "role-good": "#6cc9b0",
    "role-warn": "#f0b64a",
    "role-bad": "bold #ff7d66",
    "role-track": "#39434d",
    "role-cursor": "bold #ffffff on #23486b",
    "role-bar": "#d7dde3 on #1d2833",
}
_LIGHT = {
    "role-ground": "#20262c on #fafbfc",
    "role-text": "#20262c",
    "role-dim": "#66707a",
    "role-label": "#35638a",
    "role-head": "bold #0b4f8a",
    "role-accent": "#0f6cbd",
    "role-good": "#0b7a63",
    "role-warn": "#8f5600",
    "role-bad": "bold #b3261e",
    "role-track": "#c9d0d6",
    "role-cursor": "bold #10161c on #c4def5",
    "role-bar": "#20262c on #e3e9ee",
}
_CONTRAST = {
    "role-ground": "#ffffff on #000000",
    "role-text": "#ffffff",
    "role-dim": "#d0d0d0",
    "role-label": "#ffffff",
    "role-head": "bold #ffff66",
    "role-accent": "#66d9ff",
    "role-good": "#7dffcf",
    "role-warn": "bold #ffc83d",
    "role-bad": "bold #ff9a85",
    "role-track": "#707070",
    "role-cursor": "bold #000000 on #ffffff",
    "role-bar": "#ffffff on #303030",
}
_TERMINAL = {
    "role-ground": "ansi_default",
    "role-text": "ansi_default",
    "role-dim": "ansi_default",
    "role-label": "ansi_cyan",
    "role-head": "bold ansi_default",
    "role-accent": "ansi_cyan",
    "role-good": "ansi_green",
    "role-warn": "bold ansi_yellow",
    "role-bad": "bold ansi_red",
    "role-track": "ansi_bright_black",
    "role-cursor": "reverse",
    "role-bar": "reverse",
    "input-cursor-text-style": "reverse",
}


def _theme(name: str, roles: dict[str, str], *, dark: bool = True) -> Theme:
    """A theme whose few Textual widgets (filter, palette) have the colours of the roles."""

    def colour(role: str) -> str:
        return roles[f"role-{role}"].removeprefix("bold ")

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
        # Textual's own widgets need some more names where colours are the terminal's.
        variables={**BUILTIN_THEMES["ansi-dark"].variables, **roles} if ansi else roles,
    )


THEMES = (
    _theme("dark", _DARK),
    _theme("light", _LIGHT, dark=False),
    _theme("contrast", _CONTRAST),
    _theme("terminal", _TERMINAL),
)
"""Ours, in the order in which the key shows them. ``terminal`` uses the terminal's own 16 colours."""

NAMES = tuple(theme.name for theme in THEMES)


def chosen(wanted: str) -> str:
    """The theme to start with: ``wanted`` if it is one of ours, else what the terminal can show.

    Without colours (``NO_COLOR``) and with 16 of them, only the terminal's own are right.
    """
    if os.environ.get("NO_COLOR"):
        return "terminal"
    if wanted in NAMES:
        return wanted
    colours = ("256", "direct", "kitty")
    term = os.environ.get("TERM", "")
    many = os.environ.get("COLORTERM") or any(word in term for word in colours)
    return "dark" if many else "terminal"
