"""Formats figures with units in cells of fixed width, for the screen and for printed tables.

A function that has a ``*_WIDTH`` constant returns exactly so many characters, right-aligned, with about three
significant digits. ``None``, NaN, infinity and negative values mean "unknown" and are shown as a dash. With
``ASCII`` glyphs the result is ASCII.
"""

from __future__ import annotations

import math
import time

from rich.cells import cell_len, set_cell_size

from stalltop.model.devices.device import System
from stalltop.model.text.glyphs import UNICODE, Glyphs

DURATION_WIDTH = 6
COUNT_WIDTH = 5
RATE_WIDTH = 5
BYTES_WIDTH = 6
MEMORY_WIDTH = 7
PERCENT_WIDTH = 5
LEAST_STOLEN_PERCENT = 1.0
"""From this share of a host's CPU time on, it is told what its hypervisor takes."""

_DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB")
_ROUNDS_UP = 999.5
"""Smallest value that three significant digits would round up to 1000. From this value on, the next unit is
used."""


def whole_seconds(seconds: float) -> str:
    """Formats a duration in whole seconds: ``44s``, ``4m10s``; its width varies."""
    whole = round(max(seconds, 0.0))
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m{whole % 60:02}s" if whole < 6_000 else duration(whole * 1e9).strip()


def pressure(system: System) -> list[str]:
    """Formats the pressure figures (PSI) of a host as a list of one text, such as ``pressure CPU 54.1% memory
    0% I/O 12.3%``; its width varies. Returns [] if all figures are unknown."""
    shares = {
        "CPU": system.cpu_pressure_percent,
        "memory": system.memory_pressure_percent,
        "I/O": system.io_pressure_percent,
    }
    told = [f"{name} {percent(share).strip()}" for name, share in shares.items() if share is not None]
    return [f"pressure {' '.join(told)}"] if told else []


def stolen(system: System) -> list[str]:
    """Formats the CPU time that a hypervisor took from a host as a list of one text, such as ``hypervisor
    takes 24.0%``; its width varies. Returns [] if it took less than ``LEAST_STOLEN_PERCENT``."""
    if system.cpu_steal_percent < LEAST_STOLEN_PERCENT:
        return []
    return [f"hypervisor takes {percent(system.cpu_steal_percent).strip()}"]


def missing(width: int, glyphs: Glyphs = UNICODE) -> str:
    """Returns the cell of an unknown figure, ``width`` columns wide."""
    return glyphs.missing.rjust(width)


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value >= 0


def _three_digits(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    if value < 99.95:
        return f"{value:.1f}"
    return f"{value:.0f}"


def duration(ns: float | None, glyphs: Glyphs = UNICODE) -> str:
    """Formats a duration in ns: `` 850ns``, ``1.23µs``, ``45.6ms``, `` 2.50s``, ``16m40s``, ``27h46m``."""
    if ns is None or not _known(ns):
        return missing(DURATION_WIDTH, glyphs)
    return _duration(ns, glyphs.micro + "s").rjust(DURATION_WIDTH)


def _duration(ns: float, micro: str) -> str:
    if ns < _ROUNDS_UP:
        return f"{ns:.0f}ns"
    for scale, unit in ((1e3, micro), (1e6, "ms"), (1e9, "s")):
        if ns / scale < _ROUNDS_UP:
            return _three_digits(ns / scale) + unit
    # Longer durations have two units, so that minutes are not read as milliseconds.
    seconds = round(ns / 1e9)
    if seconds < 100 * 60:
        return f"{seconds // 60}m{seconds % 60:02}s"
    minutes = round(ns / 60e9)
    if minutes < 100 * 60:
        return f"{minutes // 60}h{minutes % 60:02}m"
    hours = round(ns / 3600e9)
    if hours < 100 * 24:
        return f"{hours // 24}d{hours % 24:02}h"
    return f"{min(hours // 24, 99_999)}d"


def _scaled(value: float, whole: bool) -> str:
    if whole and value < _ROUNDS_UP:
        return f"{value:.0f}"
    for unit in _DECIMAL:
        if value < _ROUNDS_UP:
            return _three_digits(value) + unit
        value /= 1000
    return ">999Z"


def count(number: float | None, glyphs: Glyphs = UNICODE) -> str:
    """Formats a count: ``    7``, ``  999``, ``1.23k``, `` 456M``."""
    if number is None or not _known(number):
        return missing(COUNT_WIDTH, glyphs)
    return _scaled(number, whole=True).rjust(COUNT_WIDTH)


def rate(per_second: float | None, glyphs: Glyphs = UNICODE) -> str:
    """Formats a rate per second without its unit: `` 0.25``, `` 12.3``, ``1.23k``.

    A rate that is not zero never shows as zero: below 0.005 it is `` <.01``.
    """
    if per_second is None or not _known(per_second):
        return missing(RATE_WIDTH, glyphs)
    if per_second == 0:
        return "0".rjust(RATE_WIDTH)
    if per_second < 0.005:
        return "<.01".rjust(RATE_WIDTH)
    return _scaled(per_second, whole=False).rjust(RATE_WIDTH)


def size(number_bytes: float | None, glyphs: Glyphs = UNICODE) -> str:
    """Formats bytes, or bytes per second, in powers of 1000: ``    0B``, ``  512B``, ``1.23kB``,
    ``45.6GB``."""
    if number_bytes is None or not _known(number_bytes):
        return missing(BYTES_WIDTH, glyphs)
    return (_scaled(number_bytes, whole=True) + "B").rjust(BYTES_WIDTH)


def memory(number_bytes: float | None, glyphs: Glyphs = UNICODE) -> str:
    """Formats bytes of memory in powers of 1024: ``   512B``, ``1.50GiB``, `` 141GiB``."""
    if number_bytes is None or not _known(number_bytes):
        return missing(MEMORY_WIDTH, glyphs)
    value = number_bytes
    if value < _ROUNDS_UP:
        return f"{value:.0f}B".rjust(MEMORY_WIDTH)
    for unit in _BINARY:
        if value < _ROUNDS_UP:
            return (_three_digits(value) + unit).rjust(MEMORY_WIDTH)
        value /= 1024
    return ">999ZiB".rjust(MEMORY_WIDTH)


def with_unit(value: float | None, unit: str, glyphs: Glyphs = UNICODE) -> str:
    """Formats a figure of a GPU, without padding: ``70W``, ``20.0GiB``, ``1.00MB/s``. ``unit`` is the
    ``unit`` of the figure's ``DeviceFigure``."""
    if value is None:
        return missing(1, glyphs)
    if unit == "B":
        return memory(value, glyphs).strip()
    if unit == "B/s":
        return f"{size(value, glyphs).strip()}/s"
    return f"{value:.0f}{unit}" if unit else f"{value:,.0f}"


def percent(value: float | None, glyphs: Glyphs = UNICODE) -> str:
    """Formats a share in percent (0 to 100): ``   0%``, ``12.3%``, `` 100%``; `` <.1%`` if it is above 0 and
    below 0.05."""
    if value is None or not _known(value):
        return missing(PERCENT_WIDTH, glyphs)
    if value == 0:
        return "0%".rjust(PERCENT_WIDTH)
    if value < 0.05:
        return "<.1%".rjust(PERCENT_WIDTH)
    if value < 99.95:
        return f"{value:.1f}%".rjust(PERCENT_WIDTH)
    if value < 9999.5:
        return f"{value:.0f}%".rjust(PERCENT_WIDTH)
    return ">999%".rjust(PERCENT_WIDTH)


def clock(unix_seconds: float) -> str:
    """Formats the local time of day as ``HH:MM:SS``."""
    return time.strftime("%H:%M:%S", time.localtime(unix_seconds))


def moment(unix_seconds: float) -> str:
    """Formats local date, time and zone: ``2026-05-04 03:12:45 +0200``."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(unix_seconds))


def printable(text: str) -> str:
    """Replaces characters that are not printable, such as terminal escapes, by question marks.

    ``clean`` already makes names of this host printable when they are read, but windows may also come from
    files that other users made.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "?" for character in text)


def fit(text: str, width: int, glyphs: Glyphs = UNICODE) -> str:
    """Pads ``text`` to exactly ``width`` terminal columns, or cuts it with an ellipsis.

    Wide characters take two columns. With ``ASCII`` glyphs characters beyond ASCII become ``?``.
    """
    if width <= 0:
        return ""
    text = glyphs.plain(text)
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + glyphs.ellipsis


def middle(text: str, width: int, glyphs: Glyphs = UNICODE) -> str:
    """Pads ``text`` to exactly ``width`` terminal columns, or cuts out its middle and puts an ellipsis there,
    because paths and ids differ most at their ends. Widths below 8 are cut at the end, as in ``fit``."""
    text = glyphs.plain(text)
    if cell_len(text) <= width or width < 8:
        return fit(text, width, glyphs)
    head = (width - 1) // 3
    tail = text
    while cell_len(tail) > width - 1 - head:
        tail = tail[max(1, (cell_len(tail) - width + 1 + head) // 2) :]
    return fit(set_cell_size(text, head) + glyphs.ellipsis + tail, width, glyphs)
