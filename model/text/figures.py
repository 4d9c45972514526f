"""Numbers as people read them, in cells that never change width.

Every figure on the screen and in printed tables is formatted here. Each function returns exactly its
``*_WIDTH`` characters, right-aligned, three significant digits; ``None``, NaN and negative values, which
mean "not known", show as a dash. With ``unicode=False`` only ASCII comes out.
"""

from __future__ import annotations

import math
import time

from rich.cells import cell_len, set_cell_size

from stalltop.model.devices.device import System

DURATION_WIDTH = 6
COUNT_WIDTH = 5
RATE_WIDTH = 5
BYTES_WIDTH = 6
MEMORY_WIDTH = 7
PERCENT_WIDTH = 5

_DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB")
_ROUNDS_UP = 999.5
"""From here on three digits would round to 1000: the next unit is used instead."""


def pressure(system: System) -> list[str]:
    """``waited for CPU 54.1%`` and the like: how much of the time tasks waited for what; empty where unknown.

    Not a cell: it is as wide as it is.
    """
    shares = {
        "CPU": system.cpu_pressure_percent,
        "memory": system.memory_pressure_percent,
        "I/O": system.io_pressure_percent,
    }
    told = [f"{name} {percent(share).strip()}" for name, share in shares.items() if share is not None]
    return [f"pressure {' '.join(told)}"] if told else []


def missing(width: int, *, unicode: bool = True) -> str:
    """The cell that stands for a figure that is not known, ``width`` columns wide."""
    return ("–" if unicode else "-").rjust(width)


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value >= 0


def _three_digits(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    if value < 99.95:
        return f"{value:.1f}"
    return f"{value:.0f}"


def duration(ns: float | None, *, unicode: bool = True) -> str:
    """A duration given in ns: `` 850ns``, ``1.23µs``, ``45.6ms``, `` 2.50s``, ``16m40s``, ``27h46m``."""
    if ns is None or not _known(ns):
        return missing(DURATION_WIDTH, unicode=unicode)
    return _duration(ns, "µs" if unicode else "us").rjust(DURATION_WIDTH)


def _duration(ns: float, micro: str) -> str:
    if ns < _ROUNDS_UP:
        return f"{ns:.0f}ns"
    for scale, unit in ((1e3, micro), (1e6, "ms"), (1e9, "s")):
        if ns / scale < _ROUNDS_UP:
            return _three_digits(ns / scale) + unit
    # Longer ones name two units, so that a minute is never taken for a millisecond.
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


def count(number: float | None, *, unicode: bool = True) -> str:
    """A count: ``    7``, ``  999``, ``1.23k``, `` 456M``."""
    if number is None or not _known(number):
        return missing(COUNT_WIDTH, unicode=unicode)
    return _scaled(number, whole=True).rjust(COUNT_WIDTH)


def rate(per_second: float | None, *, unicode: bool = True) -> str:
    """Something per second, the unit left to the column's head: `` 0.25``, `` 12.3``, ``1.23k``.

    A rate that is not zero never shows as zero: below 0.005 it is `` <.01``.
    """
    if per_second is None or not _known(per_second):
        return missing(RATE_WIDTH, unicode=unicode)
    if per_second == 0:
        return "0".rjust(RATE_WIDTH)
    if per_second < 0.005:
        return "<.01".rjust(RATE_WIDTH)
    return _scaled(per_second, whole=False).rjust(RATE_WIDTH)


def size(number_bytes: float | None, *, unicode: bool = True) -> str:
    """Bytes moved, or bytes per second, in powers of 1000: ``   0B``, `` 512B``, ``1.23kB``, ``45.6GB``."""
    if number_bytes is None or not _known(number_bytes):
        return missing(BYTES_WIDTH, unicode=unicode)
    return (_scaled(number_bytes, whole=True) + "B").rjust(BYTES_WIDTH)


def memory(number_bytes: float | None, *, unicode: bool = True) -> str:
    """Memory in powers of 1024, as drivers and kernels size it: ``  512B``, ``1.50GiB``, `` 141GiB``."""
    if number_bytes is None or not _known(number_bytes):
        return missing(MEMORY_WIDTH, unicode=unicode)
    value = number_bytes
    if value < _ROUNDS_UP:
        return f"{value:.0f}B".rjust(MEMORY_WIDTH)
    for unit in _BINARY:
        if value < _ROUNDS_UP:
            return (_three_digits(value) + unit).rjust(MEMORY_WIDTH)
        value /= 1024
    return ">999ZiB".rjust(MEMORY_WIDTH)


def percent(value: float | None, *, unicode: bool = True) -> str:
    """A share given in percent (0 to 100): ``   0%``, ``12.3%``, `` 100%``; `` <.1%`` if not quite zero."""
    if value is None or not _known(value):
        return missing(PERCENT_WIDTH, unicode=unicode)
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
    """Local time of day, ``HH:MM:SS``."""
    return time.strftime("%H:%M:%S", time.localtime(unix_seconds))


def moment(unix_seconds: float) -> str:
    """Local date, time and zone: ``2026-05-04 03:12:45 +0200``."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(unix_seconds))


def printable(text: str) -> str:
    """``text`` with everything that could steer a terminal replaced by a question mark.

    Names are cleaned where they are read, but windows may also come from files that others wrote.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "?" for character in text)


def fit(text: str, width: int, *, unicode: bool = True) -> str:
    """``text`` in exactly ``width`` terminal columns: padded, or cut with an ellipsis.

    Wide characters count two columns. With ``unicode=False`` everything beyond ASCII becomes ``?``.
    """
    if width <= 0:
        return ""
    if not unicode:
        text = text.encode("ascii", "replace").decode("ascii")
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + ("…" if unicode else "~")


def middle(text: str, width: int, *, unicode: bool = True) -> str:
    """Like ``fit``, but cut in the middle: paths and ids differ most at their ends."""
    if not unicode:
        text = text.encode("ascii", "replace").decode("ascii")
    if cell_len(text) <= width or width < 8:
        return fit(text, width, unicode=unicode)
    head = (width - 1) // 3
    tail = text
    while cell_len(tail) > width - 1 - head:
        tail = tail[max(1, (cell_len(tail) - width + 1 + head) // 2) :]
    return fit(set_cell_size(text, head) + ("…" if unicode else "~") + tail, width, unicode=unicode)
