"""The styles of the screen by role. A theme defines them as variables, so widgets never name a colour."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from rich.style import Style
from textual.app import App
from textual.color import Color


@dataclass(frozen=True, slots=True)
class Palette:
    """One style for each role. A style without a colour keeps the colour of the terminal or of the theme."""

    ground: Style
    """The background of the screen and the colour of plain text."""
    text: Style
    dim: Style
    bright: Style
    """The style of the longest durations (``brightness``)."""
    label: Style
    head: Style
    accent: Style
    """What can be pressed, chosen or copied."""
    meter: Style
    """Bars and graphs of figures that are not bad."""
    good: Style
    low: Style
    """Problems of low severity."""
    warn: Style
    bad: Style
    track: Style
    cursor: Style
    bar: Style
    """The style of the first line of the screen and of the line of keys."""
    critical: Style
    # The parts of a call's time, by the names in ``model.window.SPLITS``.
    running: Style
    runqueue: Style
    disk: Style
    memory: Style
    lock: Style
    gpu: Style
    network: Style
    process: Style
    sleep: Style
    other: Style
    running_line: Style
    runqueue_line: Style
    disk_line: Style
    memory_line: Style
    lock_line: Style
    gpu_line: Style
    network_line: Style
    process_line: Style
    sleep_line: Style
    other_line: Style

    def level(self, percent: float | None, normal: Style) -> Style:
        """Return the style of a utilization, ``percent`` (0 to 100); ``normal`` below 75."""
        if percent is None:
            return self.dim
        if percent >= 90:
            return self.bad
        return self.warn if percent >= 75 else normal


ROLES = tuple(field.name for field in fields(Palette))
PREFIX = "role-"
"""Prefix of the theme's variables: the one for role ``warn`` is ``role-warn``. Its value is a colour or
``COLOUR on BACKGROUND``, optionally after ``bold``, ``underline`` or ``reverse``."""

_NAMES = [PREFIX + role for role in ROLES]


def parse(text: str) -> Style:
    """Return the style that the value of a theme's variable describes, such as ``bold #ffcc00 on
    #202020``."""
    attributes: dict[str, Any] = {}
    foreground, _, background = text.partition(" on ")
    for word in foreground.split():
        if word in ("bold", "underline", "reverse"):
            attributes[word] = True
        else:
            attributes["color"] = Color.parse(word).rich_color
    if background:
        attributes["bgcolor"] = Color.parse(background.strip()).rich_color
    return Style(**attributes)


@lru_cache(maxsize=16)
def _palette(descriptions: tuple[str, ...]) -> Palette:
    return Palette(*(parse(description) for description in descriptions))


def palette(app: App[Any]) -> Palette:
    """Return the palette of the app's current theme. A role that the theme does not define is plain."""
    variables = app.theme_variables
    return _palette(tuple([variables.get(name, "") for name in _NAMES]))
