"""The sum of all windows of a host in a recording."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stalltop.model.merge.merging import merge
from stalltop.model.merge.packing import Packed
from stalltop.model.merge.sliding import Sliding
from stalltop.model.window import Window


class Whole:
    """All windows of one host up to a moment, added up. Newer ones are added as they come."""

    def __init__(self) -> None:
        self._sum = Sliding(None)
        self._empty = True
        self.upto = -np.inf
        """Unix time in seconds: windows that ended by then were added, or cannot be read."""

    def add(self, parts: Sequence[Packed], upto: float) -> None:
        """Add ``parts``, all windows that can be read of those that ended after ``self.upto`` by ``upto``."""
        if parts:
            self._sum.take_in(merge([part.unpack() for part in parts]))
            self._empty = False
        self.upto = upto

    @property
    def window(self) -> Window | None:
        """The sum; None where nothing was added."""
        return None if self._empty else self._sum.window
