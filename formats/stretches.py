"""Merges windows into longer ones while they are read, for example into minutes, or into the points of a
chart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from stalltop.model.merge.merging import merge
from stalltop.model.window import Window

_AT_ONCE: Final = 32
"""Maximum number of windows that are collected before they are merged. This limits the memory."""


@dataclass(slots=True)
class _Stretch:
    """One stretch of time of one host, with the windows that were collected for it."""

    number: int
    """Number of the stretch. The stretch with number 0 begins at Unix time 0."""
    windows: list[Window] = field(default_factory=list)

    def add(self, window: Window) -> None:
        self.windows.append(window)
        if len(self.windows) >= _AT_ONCE:
            self.windows = [merge(self.windows)]


def stretches(windows: Iterable[Window], seconds: float) -> Iterator[Window]:
    """Merge ``windows`` into stretches of ``seconds``, and yield a window for each stretch.

    Stretches begin at multiples of ``seconds``, and every host has its own. ``windows`` must be in order of
    time. The middle of a window decides to which stretch it belongs.

    Percentiles of the merged windows are exact: they are computed from added histograms, not averaged.
    """
    open_ones: dict[str, _Stretch] = {}
    for window in windows:
        number = math.floor((window.start + window.seconds / 2) / seconds)
        stretch = open_ones.get(window.host)
        if stretch is not None and stretch.number != number:
            yield merge(stretch.windows)
            stretch = None
        if stretch is None:
            stretch = open_ones[window.host] = _Stretch(number)
        stretch.add(window)
    ends = [merge(stretch.windows) for stretch in open_ones.values()]
    yield from sorted(ends, key=lambda window: window.start)
