"""The colours of each theme, by role. Severities differ in brightness and in blue against orange, never in
red against green alone.

It does not import Textual, because the command line needs the names of the themes before any screen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
    "role-critical": "bold #11161b on #ff7d66",
    "role-running": "#11161b on #6cc9b0",
    "role-runqueue": "#11161b on #f0964a",
    "role-disk": "#11161b on #b48ef0",
    "role-memory": "#11161b on #e887b8",
    "role-lock": "#11161b on #ff7d66",
    "role-gpu": "#11161b on #5fb4f5",
    "role-network": "#11161b on #e8d35a",
    "role-process": "#11161b on #c2a27c",
    "role-sleep": "#11161b on #7b8792",
    "role-other": "#11161b on #a5adb5",
}
_LIGHT = {
    "role-ground": "#20262c on #fafbfc",
    "role-text": "#20262c",
    "role-dim": "#5b656e",
    "role-label": "#35638a",
    "role-head": "bold #0b4f8a",
    "role-accent": "#0f6cbd",
    "role-good": "#08705a",
    "role-warn": "#8f5600",
    "role-bad": "bold #b3261e",
    "role-track": "#c9d0d6",
    "role-cursor": "bold #10161c on #c4def5",
    "role-bar": "#20262c on #e3e9ee",
    "role-critical": "bold #ffffff on #b3261e",
    "role-running": "#10161c on #86cfbb",
    "role-runqueue": "#10161c on #f0a860",
    "role-disk": "#10161c on #b9a0ea",
    "role-memory": "#10161c on #eba3c7",
    "role-lock": "#10161c on #ef8c80",
    "role-gpu": "#10161c on #7fb7ec",
    "role-network": "#10161c on #dcc64f",
    "role-process": "#10161c on #cdb08c",
    "role-sleep": "#10161c on #b4bcc4",
    "role-other": "#10161c on #d3d9de",
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
    "role-critical": "bold #000000 on #ff9a85",
    "role-running": "#000000 on #7dffcf",
    "role-runqueue": "#000000 on #ffb347",
    "role-disk": "#000000 on #c9a3ff",
    "role-memory": "#000000 on #ff9fd0",
    "role-lock": "#000000 on #ff7a66",
    "role-gpu": "#000000 on #66d9ff",
    "role-network": "#000000 on #ffff66",
    "role-process": "#000000 on #e0c09a",
    "role-sleep": "#000000 on #a0a0a0",
    "role-other": "#000000 on #e0e0e0",
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
    "role-critical": "bold reverse ansi_red",
    "role-running": "ansi_black on ansi_green",
    "role-runqueue": "ansi_black on ansi_yellow",
    "role-disk": "ansi_black on ansi_magenta",
    "role-memory": "ansi_black on ansi_bright_magenta",
    "role-lock": "ansi_black on ansi_red",
    "role-gpu": "ansi_black on ansi_cyan",
    "role-network": "ansi_black on ansi_bright_yellow",
    "role-process": "ansi_black on ansi_bright_cyan",
    "role-sleep": "ansi_black on ansi_white",
    "role-other": "ansi_black on ansi_bright_white",
    "input-cursor-text-style": "reverse",
}

_SAFE = {
    "role-ground": "#f0f0f0 on #0a0a0a",
    "role-text": "#f0f0f0",
    "role-dim": "#a8a8a8",
    "role-label": "#56b4e9",
    "role-head": "bold #f0e442",
    "role-accent": "#56b4e9",
    "role-good": "#009e73",
    "role-warn": "#e69f00",
    "role-bad": "bold #d55e00",
    "role-track": "#4a4a4a",
    "role-cursor": "bold #ffffff on #0072b2",
    "role-bar": "#f0f0f0 on #181818",
    "role-critical": "bold #000000 on #d55e00",
    "role-running": "#000000 on #009e73",
    "role-runqueue": "#000000 on #e69f00",
    "role-disk": "#000000 on #cc79a7",
    "role-memory": "#000000 on #c8c8c8",
    "role-lock": "#000000 on #d55e00",
    "role-gpu": "#000000 on #56b4e9",
    "role-network": "#000000 on #f0e442",
    "role-process": "#ffffff on #0072b2",
    "role-sleep": "#000000 on #808080",
    "role-other": "#000000 on #ffffff",
}
"""The colours of Okabe and Ito, "Color Universal Design" (2008, https://jfly.uni-koeln.de/color/), and
greys."""
_MONO = {
    **dict.fromkeys(_TERMINAL, "ansi_default"),
    "role-head": "bold ansi_default",
    "role-warn": "bold ansi_default",
    "role-bad": "bold ansi_default",
    "role-cursor": "reverse",
    "role-bar": "reverse",
    "role-critical": "bold reverse",
    "input-cursor-text-style": "reverse",
}
"""No colours. Warnings are bold, and letters tell the severity."""

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
