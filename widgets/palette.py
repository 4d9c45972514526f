"""The colours of the screen by role. Themes give them as variables; widgets never name a colour."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from rich.style import Style
from textual.app import App
from textual.color import Color


@dataclass(frozen=True, slots=True)
class Palette:
    """One style for each role. A style without a colour keeps the terminal's or the theme's own."""

    ground: Style
    """Beneath everything: the background and the colour of plain text."""
    text: Style
    dim: Style
    label: Style
    head: Style
    accent: Style
    good: Style
    warn: Style
    bad: Style
    track: Style
    cursor: Style
    bar: Style
    """The line at the top and the line of keys at the bottom."""
    critical: Style
    # Where the time of calls went, by the names of ``model.window.SPLITS``: cells of a bar.
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

    @property
    def greys(self) -> bool:
        """Whether what is ``dim`` looks other than plain text."""
        return self.dim != self.text

    def level(self, percent: float | None) -> Style:
        """Style of a figure that is a share of what there is (``percent`` 0 to 100)."""
        if percent is None:
            return self.dim
        if percent >= 90:
            return self.bad
        return self.warn if percent >= 75 else self.accent


ROLES = tuple(field.name for field in fields(Palette))
PREFIX = "role-"
"""A theme's variable for role ``warn`` is ``role-warn``: a colour, ``colour on background``, either with
``bold``, ``underline`` or ``reverse`` before it."""


def parse(text: str) -> Style:
    """The style that a theme's variable describes, such as ``bold #ffcc00 on #202020``."""
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
    """The palette of the app's theme of now; roles that the theme does not name are plain."""
    variables = app.theme_variables
    return _palette(tuple(variables.get(PREFIX + role, "") for role in ROLES))
