"""The colours of the parts of a call's time. They are the same in all themes of the screen and on HTML pages.

The colours are from the 256-colour palette of xterm, so that a part looks alike with 256 colours and with 24
bits. They differ in lightness as well as in hue, because people with red-green colour blindness see few hues.
No part has the colour of a severity in any theme. Running and waiting for the GPU are normal work, so their
colours are greyish. Waits that others may cause (for a CPU, disk, memory, lock, network) have vivid ones.

docs/config.md states a minimum difference between the colours; ``tests/tui/settings/test_part_colours.py``
checks this.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:  # the command line needs the names of the themes before numpy is loaded
    from stalltop.model.window import PartName


class PartColour(NamedTuple):
    """The colours of a part in a bar, as ``#rrggbb``."""

    letter: str
    background: str


_BLACK, _WHITE = "#000000", "#ffffff"

PART_COLOURS: Final[Mapping[PartName, PartColour]] = MappingProxyType(
    {
        "running": PartColour(_WHITE, "#4e4e4e"),
        "runqueue": PartColour(_BLACK, "#d7ffaf"),
        "disk": PartColour(_BLACK, "#00875f"),
        "memory": PartColour(_BLACK, "#87d7d7"),
        "lock": PartColour(_WHITE, "#5f00d7"),
        "gpu": PartColour(_BLACK, "#5f8787"),
        "network": PartColour(_BLACK, "#0087d7"),
        "process": PartColour(_WHITE, "#5f005f"),
        "sleep": PartColour(_BLACK, "#d7afaf"),
        "other": PartColour(_BLACK, "#8787af"),
    }
)
