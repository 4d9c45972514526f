"""Draws the first picture before the screen is imported, so that the user sees within 0.2 s that stalltop
starts."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator
from typing import TextIO

from stalltop.model.text.clean import clean
from stalltop.tui.terminal.abilities import drawn_on, require_screen

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
"""The other screen of the terminal, without a cursor, and empty (xterm's control sequences)."""
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HEADER_LINE = 3
"""The line of the header, so that it does not move when the real screen follows."""


@contextlib.contextmanager
def opening() -> Iterator[None]:
    """Draws the first picture. If the block raises an exception, the terminal is as before; otherwise the
    screen follows, which leaves the terminal as it was.

    Raises UsageError if there is no terminal that can show a screen.
    """
    require_screen()
    terminal = drawn_on()
    assert terminal is not None
    header = f" stalltop {clean(platform.node())}  STARTING"
    try:
        _write(terminal, f"{_ENTER}\x1b[{_HEADER_LINE};1H{header}")
        yield
    except BaseException:
        _write(terminal, _LEAVE)
        raise


def _write(terminal: TextIO, text: str) -> None:
    """Writes ``text``. A terminal that is gone is noticed later, when the screen is shown."""
    with contextlib.suppress(OSError, ValueError):
        terminal.write(text)
        terminal.flush()
