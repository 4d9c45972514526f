"""Reads the records of threads as far as they were ever in use.

A record has two kilobytes, so that reading one field of all 8,192 records touches as many cache lines and
4,000 pages, several times a second. Most hosts trace a few dozen threads.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.probes.programs.growing_map import GrowingMap

_AHEAD: Final = 128
"""Number of records behind the last one in use that are examined. The BPF programs take records in the order
of their numbers until each was in use once, and write the number of a record into it at once. So only as many
records as there are CPUs may be taken and not written yet."""


class ThreadRecords:
    """The records of ``map``, whose elements have the dtype ``layout.THREAD``. Any thread may use it."""

    def __init__(self, records: GrowingMap) -> None:
        self._records = records
        self._taken = 0

    def __len__(self) -> int:
        return len(self._records.array)

    @property
    def taken(self) -> NDArray[np.void]:
        """Returns the records that are in use or ever were, in the order of their numbers. The BPF programs
        may change them at any time. The result does not grow: it lacks records that are taken later."""
        first = self._taken
        while first < len(self):
            end = self._records.reach(min(first + _AHEAD, len(self)))
            written = np.flatnonzero(self._records.array["index"][first:end] == np.arange(first, end))
            if not len(written):
                break
            first += int(written[-1]) + 1
        self._taken = first
        return self._records.array[:first]

    def close(self) -> None:
        """Closes the map; records that were taken by now stay readable. May be called twice."""
        self._records.close()
