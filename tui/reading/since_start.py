"""The window since the start, which is seldom shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stalltop.model.merge.merging import merge
from stalltop.model.merge.sliding import Sliding
from stalltop.model.window import Window

_AT_ONCE: Final = 10
"""Number of windows that are added to the sum together. To add ten merged windows takes about as long as to
add one."""


@dataclass(frozen=True, slots=True, eq=False)
class SummedWindows:
    """The window since the start, computed when it is needed. Any thread may use it."""

    parts: tuple[Window, ...]
    """The windows to merge, oldest first."""

    @property
    def start(self) -> float:
        """Return the Unix time at which counting began."""
        return self.parts[0].start

    def window(self) -> Window:
        """Return the window since the start. This takes tens of milliseconds."""
        return merge(self.parts)


class SinceStart:
    """Sums all windows. Used by one thread."""

    def __init__(self) -> None:
        self._sum = Sliding(None)
        self._before: Window | None = None
        """The sum without the windows in ``_later``."""
        self._later: list[Window] = []
        """The latest windows, which are not in the sum yet."""

    def take_in(self, window: Window) -> None:
        """Add ``window``, the newest one."""
        self._later.append(window)
        if len(self._later) >= _AT_ONCE:
            self._before = self.window

    @property
    def window(self) -> Window:
        """Return the window since the start. ``take_in`` must have been called before."""
        if self._later:
            self._before = self._sum.push(merge(self._later))
            self._later.clear()
        assert self._before is not None
        return self._before

    @property
    def whole(self) -> SummedWindows:
        """Return the window since the start, to be computed later."""
        before = () if self._before is None else (self._before,)
        return SummedWindows((*before, *self._later))
