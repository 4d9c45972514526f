"""Determines what stdout can show: width, colours and Unicode."""

from __future__ import annotations

import os
import shutil
import sys
from typing import NamedTuple

from stalltop.model.text.glyphs import ASCII, UNICODE, Glyphs


class PrintStyle(NamedTuple):
    """Abilities of stdout."""

    width: int
    """Number of columns."""
    colour: bool
    glyphs: Glyphs


def style() -> PrintStyle:
    """Determines the abilities of stdout. A ``NO_COLOR`` that is not empty turns colours off
    (no-color.org)."""
    from stalltop.tui.terminal.abilities import speaks_unicode

    colour = (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "") not in ("", "dumb")
    )
    unicode = speaks_unicode() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return PrintStyle(shutil.get_terminal_size((100, 24)).columns, colour, UNICODE if unicode else ASCII)
