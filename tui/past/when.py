"""Parses a moment that a user types: ``14:32``, ``-2h``, ``2026-11-20 14:32``. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from stalltop.model.text import figures

EXAMPLES: Final = "14:32, 14:32:05, -2h, -1h30m, +10m, 2026-11-20 14:32, start, end"
"""Examples of input."""

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_RELATIVE: Final = re.compile(r"([+-])((?:\d+(?:\.\d+)?[smhd])+)")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_CLOCK: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")
_LONGEST: Final = 40
"""The most characters that are parsed."""


def moment(text: str, *, start: float, end: float, shown: float | None = None) -> float:
    """Return the Unix time that ``text`` means, when windows from ``start`` to ``end`` are kept.

    A time of day is the last one before ``end``; ``-2h`` is relative to ``end``; ``+10m`` is relative to
    ``shown`` (None: to ``start``). Times without a zone are local. Raises ValueError, with examples, if the
    text is no moment. Raises ValueError too if the moment is before ``start`` or after ``end``.
    """
    said = " ".join(text.split()).casefold()
    if not said or len(said) > _LONGEST:
        raise ValueError(f"type a moment, such as {EXAMPLES}")
    at = _meant(said, start, end, start if shown is None else shown)
    if at is None:
        raise ValueError(f"{figures.printable(text.strip())!r} is not a moment; type one such as {EXAMPLES}")
    if start - 1.0 <= at <= end + 1.0:
        return min(max(at, start), end)
    raise ValueError(
        f"{when(at, end)} is {'before' if at < start else 'after'} what is kept:"
        f" {when(start, end)} to {when(end, end)}"
    )


def when(at: float, now: float) -> str:
    """Format ``at`` as a time of day, with the date if it differs from the date of ``now``."""
    text = figures.moment(at)
    return text[11:19] if text[:10] == figures.moment(now)[:10] else text[:19]


def _meant(said: str, start: float, end: float, shown: float) -> float | None:
    if said in ("start", "first", "begin"):
        return start
    if said in ("end", "last", "now", "newest"):
        return end
    if relative := _RELATIVE.fullmatch(said):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(relative[2]))
        return end - seconds if relative[1] == "-" else shown + seconds
    if clock := _CLOCK.fullmatch(said):
        return _time_of_day(clock.groups(), end)
    try:
        return datetime.fromisoformat(said.upper()).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _time_of_day(clock: Sequence[str | None], end: float) -> float:
    """Return the last moment before ``end`` at which clocks showed this time of day. It may be up to a second
    after ``end``, because the screen shows whole seconds."""
    hours, minutes, seconds = (float(part or 0) for part in clock)
    midnight = datetime.fromtimestamp(end).replace(hour=0, minute=0, second=0, microsecond=0)
    for back in range(3):
        # Based on local midnights: a day on which clocks change is an hour shorter or longer.
        day = midnight - timedelta(days=back)
        at = day.replace(hour=int(hours), minute=int(minutes)).timestamp() + seconds
        if at <= end + 1.0:
            return at
    return end
