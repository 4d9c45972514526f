"""The colours of each theme, by role. Severities differ in brightness and in blue against orange, never in
red against green alone.

It does not import Textual, because the command line needs the names of the themes before any screen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from stalltop.model.text.part_colours import PART_COLOURS

if TYPE_CHECKING:  # the command line needs the names of the themes before numpy is loaded
    pass

_LEAST_LIGHT, _MOST_LIGHT = 0x60, 0xB0
"""The strongest channel of a line's colour on a dark ground is at least the first, and the mean of the
channels on a light ground at most the second, so that a thin line is seen."""


def _line(colour: str, *, dark: bool) -> str:
    """Return the colour of a line of a part whose blocks have ``colour``, on a ground that is ``dark`` or
    light: the same hue, lighter or darker where the line would hardly be seen."""
    channels = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    mean = sum(channels) / 3
    if dark and mean < _LEAST_LIGHT:
        channels = [round(one + (255 - one) * 0.35) for one in channels]
    elif not dark and mean > _MOST_LIGHT:
        channels = [round(one * 0.65) for one in channels]
    return "#" + "".join(f"{one:02x}" for one in channels)


def _parts(*, dark: bool) -> dict[str, str]:
    """Return the styles of the parts of a call's time, as blocks and as lines."""
    blocks = {f"role-{name}": f"{part.letter} on {part.background}" for name, part in PART_COLOURS.items()}
    lines = {f"role-{name}_line": _line(part.background, dark=dark) for name, part in PART_COLOURS.items()}
    return {**blocks, **lines}


_PARTS = _parts(dark=True)
_PATTERNS = dict.fromkeys(_PARTS, "ansi_default")
"""For terminals with too few colours: all parts of a bar have the same colour, and patterns distinguish
them."""
_DARK = {
    "role-ground": "#d7dde3 on #11161b",
    "role-text": "#d7dde3",
    "role-dim": "#84909c",
    "role-bright": "bold #ffffff",
    "role-label": "#a9b4be",
    "role-head": "bold #ffffff",
    "role-accent": "#5fb4f5",
    "role-meter": "#8a9bab",
    "role-good": "#6cc9b0",
    "role-low": "#8fb0cc",
    "role-warn": "#f7c44d",
    "role-bad": "bold #ff8066",
    "role-track": "#39434d",
    "role-cursor": "bold #ffffff on #23486b",
    "role-bar": "#d7dde3 on #1d2833",
    "role-critical": "bold #11161b on #ff8066",
    **_PARTS,
}
_LIGHT = {
    "role-ground": "#20262c on #fafbfc",
    "role-text": "#20262c",
    "role-dim": "#5b656e",
    "role-bright": "bold #000000",
    "role-label": "#4d565e",
    "role-head": "bold #000000",
    "role-accent": "#0f6cbd",
    "role-meter": "#5b6b79",
    "role-good": "#08705a",
    "role-low": "#35638a",
    "role-warn": "#8f5600",
    "role-bad": "bold #98201e",
    "role-track": "#c9d0d6",
    "role-cursor": "bold #10161c on #c4def5",
    "role-bar": "#20262c on #e3e9ee",
    "role-critical": "bold #ffffff on #98201e",
    **_parts(dark=False),
}
_CONTRAST = {
    "role-ground": "#ffffff on #000000",
    "role-text": "#ffffff",
    "role-dim": "#d0d0d0",
    "role-bright": "bold #ffffff",
    "role-label": "#ffffff",
    "role-head": "bold #ffffff",
    "role-accent": "#66d9ff",
    "role-meter": "#d0d0d0",
    "role-good": "#7dffcf",
    "role-low": "#ffffff",
    "role-warn": "bold #ffc83d",
    "role-bad": "bold #ff9a85",
    "role-track": "#707070",
    "role-cursor": "bold #000000 on #ffffff",
    "role-bar": "#ffffff on #303030",
    "role-critical": "bold #000000 on #ff9a85",
    **_PARTS,
}
_TERMINAL = {
    "role-ground": "ansi_default",
    "role-text": "ansi_default",
    "role-dim": "ansi_default",
    "role-bright": "bold ansi_default",
    "role-label": "ansi_cyan",
    "role-head": "bold ansi_default",
    "role-accent": "ansi_cyan",
    "role-meter": "ansi_green",
    "role-good": "ansi_green",
    "role-low": "ansi_cyan",
    "role-warn": "bold ansi_yellow",
    "role-bad": "bold ansi_red",
    "role-track": "ansi_bright_black",
    "role-cursor": "reverse",
    "role-bar": "reverse",
    "role-critical": "bold reverse ansi_red",
    **_PATTERNS,
    "input-cursor-text-style": "reverse",
}

_SAFE = {
    "role-ground": "#f0f0f0 on #0a0a0a",
    "role-text": "#f0f0f0",
    "role-dim": "#a8a8a8",
    "role-bright": "bold #ffffff",
    "role-label": "#c8c8c8",
    "role-head": "bold #ffffff",
    "role-accent": "#56b4e9",
    "role-meter": "#a8a8a8",
    "role-good": "#009e73",
    "role-low": "#56b4e9",
    "role-warn": "#e69f00",
    "role-bad": "bold #d55e00",
    "role-track": "#4a4a4a",
    "role-cursor": "bold #ffffff on #0072b2",
    "role-bar": "#f0f0f0 on #181818",
    "role-critical": "bold #000000 on #d55e00",
    **_PARTS,
}
"""The colours of Okabe and Ito, "Color Universal Design" (2008, https://jfly.uni-koeln.de/color/), and
greys."""
_MONO = {
    **dict.fromkeys(_TERMINAL, "ansi_default"),
    "role-bright": "bold ansi_default",
    "role-head": "bold ansi_default",
    "role-low": "ansi_default",
    "role-warn": "bold ansi_default",
    "role-bad": "bold ansi_default",
    "role-cursor": "reverse",
    "role-bar": "reverse",
    "role-critical": "bold reverse",
    "input-cursor-text-style": "reverse",
}
"""No colours. Warnings are bold, and letters show the severity."""

PALETTES: Final[Mapping[str, dict[str, str]]] = {
    "dark": _DARK,
    "light": _LIGHT,
    "contrast": _CONTRAST,
    "colour-blind": _SAFE,
    "terminal": _TERMINAL,
    "mono": _MONO,
}
"""The themes by name, in the order in which the key selects them. ``terminal`` uses the terminal's own 16
colours."""
THEME_NAMES = tuple(PALETTES)
