"""Detects that the host was suspended or its clock was set between two windows, so that the recording can
report it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from stalltop.model.evidence import Event

SET_SECONDS: Final = 0.5
"""If the difference between CLOCK_REALTIME and CLOCK_BOOTTIME changes by at least this much, in seconds, the
clock was set. Gradual correction (adjtime) changes the difference by at most 0.5 ms per second."""
ASLEEP_SECONDS: Final = 1.0
"""Shortest suspension of the host that is reported, in seconds."""
_AT_ONCE: Final = 0.02
"""Longest time, in seconds, that reading the three clocks may take. If it takes longer, they are read
again."""
_TRIES: Final = 10


class Clocks(NamedTuple):
    """Three clocks at one moment, in seconds."""

    wall: float
    """CLOCK_REALTIME, Unix time, which may be set."""
    running: float
    """CLOCK_MONOTONIC, which stops while the host is suspended."""
    always: float
    """CLOCK_BOOTTIME, which never stops."""


def read_clocks() -> Clocks:
    """Return the host's clocks."""
    clocks = Clocks(0.0, 0.0, 0.0)
    for _ in range(_TRIES):  # The thread may be preempted between two readings.
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        clocks = Clocks(time.time(), time.monotonic(), before)
        if time.clock_gettime(time.CLOCK_BOOTTIME) - before < _AT_ONCE:
            break
    return clocks


class ClockWatch:
    """Compares the clocks at each call of ``events``."""

    def __init__(self, read: Callable[[], Clocks] = read_clocks) -> None:
        self._read = read
        self._last = read()

    def events(self) -> tuple[Event, ...]:
        """Return events for what happened since the last call: ``suspended``, ``clock_step``."""
        now, before, self._last = (clocks := self._read()), self._last, clocks
        asleep = (now.always - before.always) - (now.running - before.running)
        ahead = (now.wall - before.wall) - (now.always - before.always)
        found = []
        if asleep >= ASLEEP_SECONDS:
            text = f"the host was suspended for {length_text(asleep)}"
            found.append(Event(now.wall, "suspended", "", 0, "", text))
        if abs(ahead) >= SET_SECONDS:
            way = "forward" if ahead > 0 else "back"
            text = f"the host's clock was set {way} by {length_text(abs(ahead))}"
            found.append(Event(now.wall, "clock_step", "", 0, "", text))
        return tuple(found)


def length_text(seconds: float) -> str:
    """Return a length of time as text, such as ``2.5 s``, ``3 min 20 s``, ``5 h 0 min`` or ``12 d 3 h``."""
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    for unit, name, part, part_name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min")):
        if whole >= unit:
            return f"{whole // unit} {name} {whole % unit // part} {part_name}"
    return f"{whole // 60} min {whole % 60} s"
