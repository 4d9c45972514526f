"""Computes how many elements the Linux kernel evicted from full LRU maps (``bpf/base/evicting.h``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from stalltop.probes.layout import (
    CHOICES,
    CUDA_PROGRAMS,
    LOOKED_UP_FUNCTIONS,
    LOOKUPS,
    MADE_CONTEXTS,
    REGISTERED_FUNCTIONS,
    REUSED,
    TOLD_PROGRAMS,
    Evicting,
)
from stalltop.probes.maps.raw import RawEvictions
from stalltop.probes.programs.bpf_calls import look_at_all, map_info
from stalltop.probes.programs.loading import Programs

SIZES: Final = {
    Evicting.TOLD_PROGRAMS: TOLD_PROGRAMS,
    Evicting.REGISTERED: REGISTERED_FUNCTIONS,
    Evicting.LOOKED_UP: LOOKED_UP_FUNCTIONS,
    Evicting.GENERATION_OF: REUSED,
    Evicting.LOOKUPS: LOOKUPS,
    Evicting.CUDA_PROGRAMS: CUDA_PROGRAMS,
    Evicting.DEVICE_OF_CONTEXT: MADE_CONTEXTS,
    Evicting.CHOICES: CHOICES,
    Evicting.OLDER_PROGRAMS: CUDA_PROGRAMS,
}
"""Number of elements that each map holds in any case."""
COUNT_SECONDS: Final = 10.0
"""The elements of full maps are counted at most once in this time, s: 100,000 elements take 30 ms."""


class Evictions:
    """Reads the turnover of the LRU maps. Used from one thread at a time."""

    def __init__(self, programs: Programs, clock: Callable[[], float] = time.monotonic) -> None:
        self._turnovers = programs.turnovers
        self._fds = [getattr(programs, kind.name.lower()) for kind in SIZES]
        self._clock = clock
        self._counted = -COUNT_SECONDS
        self._evicted = np.zeros(len(SIZES), np.int64)
        """Number of elements that each map evicted so far."""

    def read(self) -> list[RawEvictions]:
        """Returns the maps that were found to have evicted elements since the previous read. Raises
        OSError."""
        # Removals are read first, so that no element seems to be there that is not.
        removed = self._turnovers["removed"].astype(np.int64)
        entered = self._turnovers["added"].astype(np.int64) - removed
        full = np.flatnonzero(entered - self._evicted > list(SIZES.values()))
        now = self._clock()
        if not len(full) or now - self._counted < COUNT_SECONDS:
            return []
        self._counted = now
        found = []
        for at in full.tolist():
            kind = Evicting(at)
            evicted = int(entered[at]) - _elements(self._fds[at])
            if evicted > self._evicted[at]:
                found.append(RawEvictions(kind, SIZES[kind], evicted - int(self._evicted[at])))
                self._evicted[at] = evicted
        return found


def _elements(map_fd: int) -> int:
    info = map_info(map_fd)
    key, value = (np.dtype([("all", f"V{info[name]}")]) for name in ("key_size", "value_size"))
    return len(look_at_all(map_fd, key, value)[0])
