"""Finds out whether the terminal can show a screen, and with which characters."""

from __future__ import annotations

import functools
import os
import sys
import termios
from typing import TextIO

from stalltop.model.errors import UsageError

COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
"""Values that Python itself gives to LC_CTYPE in the C locale (PEP 538)."""


def require_screen() -> None:
    """Raise UsageError, with a remedy, if a full-screen program cannot run here.

    A terminal that reports no size is set to 80 columns and 24 lines.
    """
    remedy = "`stalltop once` prints one window and needs no terminal"
    if os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        name = os.environ.get("TERM") or "not set"
        raise UsageError(f"this terminal cannot show a screen (TERM is {name})", remedy)
    # Keys are read from standard input.
    if not _is_terminal(sys.__stdin__):
        raise UsageError("standard input is not a terminal", remedy)
    if drawn_on() is None:
        raise UsageError("there is no terminal to draw on", remedy)
    _settle_size()


def drawn_on() -> TextIO | None:
    """Return the terminal on which the screen is drawn; None if there is none.

    This is standard error, so that stdout remains data. If standard error goes elsewhere (`2>file`), it is
    standard output, else the controlling terminal.
    """
    for stream in (sys.__stderr__, sys.__stdout__):
        if _is_terminal(stream):
            return stream
    return _controlling()


@functools.cache
def _controlling() -> TextIO | None:
    try:
        return open("/dev/tty", "w", encoding="utf-8")
    except OSError:
        return None


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # the stream is closed
        return False


def _settle_size() -> None:
    """Set a terminal that reports no size (`script`, `expect`, serial lines) to 80 columns and 24 lines.

    Textual and rich assume different sizes, 24 and 25 lines, and would repaint without end.
    """
    for stream in (sys.__stdin__, drawn_on()):
        assert stream is not None
        try:
            rows, columns = termios.tcgetwinsize(stream.fileno())
            if not rows or not columns:
                termios.tcsetwinsize(stream.fileno(), (rows or 24, columns or 80))
        except (OSError, termios.error):
            pass  # the terminal is gone; the next write to it reports that


def speaks_unicode() -> bool:
    """Return whether the locale says that the terminal shows UTF-8.

    The environment variables decide, because Python uses UTF-8 in the C locale too. If none of them is set,
    as in many containers, the terminal is assumed to show UTF-8, as today's terminals do.
    """
    if os.environ.get("TERM") == "linux":
        return False  # the font of the Linux console lacks many of the glyphs
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = os.environ.get(name)
        if value and not (name == "LC_CTYPE" and value in COERCED and not _given(name)):
            return "utf8" in value.lower().replace("-", "")
    return True


def _given(name: str) -> bool:
    """Return whether the environment variable was set when the program was started."""
    try:
        with open("/proc/self/environ", "rb") as file:
            return any(entry.startswith(name.encode() + b"=") for entry in file.read().split(b"\0"))
    except OSError:
        return True
