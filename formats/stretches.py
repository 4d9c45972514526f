"""Windows added up to longer ones as they come: a week in minutes, a recording in the points of a chart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from stalltop.model.merge.merging import merge
from stalltop.model.window import Window

_AT_ONCE: Final = 32
"""Windows that wait to be added up."""


@dataclass(slots=True)
class _Stretch:
    """What is added up of one host."""

    number: int
    """Which one of the stretches it is, counted from the beginning of Unix time."""
    windows: list[Window] = field(default_factory=list)

    def add(self, window: Window) -> None:
        self.windows.append(window)
        if len(self.windows) >= _AT_ONCE:
            self.windows = [merge(self.windows)]


def stretches(windows: Iterable[Window], seconds: float) -> Iterator[Window]:
    """``windows`` added up by stretches of ``seconds``, which begin at multiples of it.

    Windows come in order of time; a window is part of the stretch that its middle is in. Every host has
    stretches of its own. Nothing is averaged: see ``model.merge.merging.merge``.
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
