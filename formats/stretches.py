"""Merges windows to longer ones as they come, such as to minutes, or to the points of a chart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from stalltop.model.merge.merging import merge
from stalltop.model.window import Window

_AT_ONCE: Final = 32
"""Number of windows that are collected before they are merged, so that memory stays bounded."""


@dataclass(slots=True)
class _Stretch:
    """A stretch of time of one host, whose windows are being collected."""

    number: int
    """The number of the stretch, counted from Unix time 0."""
    windows: list[Window] = field(default_factory=list)

    def add(self, window: Window) -> None:
        self.windows.append(window)
        if len(self.windows) >= _AT_ONCE:
            self.windows = [merge(self.windows)]


def stretches(windows: Iterable[Window], seconds: float) -> Iterator[Window]:
    """Yield ``windows`` merged by stretches of ``seconds``, which begin at multiples of ``seconds``.

    ``windows`` must be in order of time; the middle of a window decides which stretch it belongs to. Every
    host has its own stretches. Percentiles are exact, not averages: see ``model.merge.merging.merge``.
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
