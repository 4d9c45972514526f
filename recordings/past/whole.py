"""Sums up all windows of a host in a recording."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stalltop.model.merge.merging import merge
from stalltop.model.merge.packing import Packed
from stalltop.model.merge.sliding import Sliding
from stalltop.model.window import Window


class Whole:
    """The sum of all windows of one host up to a time. Newer windows are added as they are recorded."""

    def __init__(self) -> None:
        self._sum = Sliding(None)
        self._empty = True
        self.upto = -np.inf
        """Unix time in seconds. All windows that ended by this time have been added, except windows that
        cannot be read."""

    def add(self, parts: Sequence[Packed], upto: float) -> None:
        """Add ``parts``: all readable windows that ended after ``self.upto``, but not after ``upto``."""
        if parts:
            self._sum.take_in(merge([part.unpack() for part in parts]))
            self._empty = False
        self.upto = upto

    @property
    def window(self) -> Window | None:
        """The sum; None if no window was added."""
        return None if self._empty else self._sum.window
