"""Determines what stdout can show: width, colours and Unicode."""

from __future__ import annotations

import os
import shutil
import sys

from stalltop.model.text.glyphs import ASCII, UNICODE
from stalltop.model.text.style import Style


def style() -> Style:
    """Determines the abilities of stdout. A ``NO_COLOR`` that is not empty turns colours off
    (no-color.org)."""
    from stalltop.tui.terminal.abilities import speaks_unicode

    colour = (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "") not in ("", "dumb")
    )
    unicode = speaks_unicode() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return Style(shutil.get_terminal_size((100, 24)).columns, colour, UNICODE if unicode else ASCII)
