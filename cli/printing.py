"""How text for a person is printed on this stdout."""

from __future__ import annotations

import os
import shutil
import sys
from typing import NamedTuple


class PrintStyle(NamedTuple):
    """What stdout shows."""

    width: int
    """Columns."""
    colour: bool
    unicode: bool


def style() -> PrintStyle:
    """Colours on a terminal that has them, unless ``NO_COLOR`` says otherwise (empty says nothing)."""
    from stalltop.tui.terminal.abilities import speaks_unicode

    colour = (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "") not in ("", "dumb")
    )
    unicode = speaks_unicode() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return PrintStyle(shutil.get_terminal_size((100, 24)).columns, colour, unicode)
