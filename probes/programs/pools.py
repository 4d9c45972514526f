"""Puts records into the pools from which the BPF programs take them (``bpf/base/pools.h``)."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Mapping
from typing import Final

from stalltop.probes.layout import FILLED_AT_ONCE, Pool
from stalltop.probes.programs.bpf_calls import run_raw_tracepoint

_STACKS: Final = (Pool.SLOTS, Pool.KERNELS, Pool.OCTAVES)
"""Pools that are stacks: the record that was put there last is taken first."""
WITHOUT_QUEUE: Final = (Pool.PIECES,)
"""Pools whose records are only counted: they have no numbers."""


class Pools:
    """The pools of loaded programs, with ``sizes`` records each at first. ``filling`` and ``freeing`` are the
    descriptors of the programs ``records_are_free`` and ``record_is_over`` (``bpf/filling.h``), which this
    object takes over. Raises OSError."""

    def __init__(self, filling: int, freeing: int, sizes: Mapping[Pool, int]) -> None:
        self._filling, self._freeing = filling, freeing
        self.sizes: dict[Pool, int] = {}
        """Number of records of each pool."""
        for pool, size in sizes.items():
            self.add(pool, size)

    def add(self, pool: Pool, number: int) -> None:
        """Adds ``number`` records to ``pool``; their numbers follow those that it has. Raises OSError."""
        first = self.sizes.get(pool, 0)
        fill(self._filling, pool, first, number)
        self.sizes[pool] = first + number

    def free(
        self,
        pool: Pool,
        records: Iterable[int],
        tgids: Iterable[int] = itertools.repeat(0),
        cgroup_ids: Iterable[int] = itertools.repeat(0),
    ) -> None:
        """Frees ``records`` of ``pool``. ``tgids`` and ``cgroup_ids`` say in whose accounts the records are;
        0: in none. Of a pool in ``WITHOUT_QUEUE``, each element of ``records`` is a number of records that
        are freed together. Raises OSError."""
        for record, tgid, cgroup_id in zip(records, tgids, cgroup_ids, strict=False):
            run_raw_tracepoint(self._freeing, pool, record, tgid, cgroup_id)

    def close(self) -> None:
        """Closes the programs. May be called twice."""
        fds, self._filling, self._freeing = (self._filling, self._freeing), -1, -1
        for fd in fds:
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)


def fill(filling: int, pool: Pool, first: int, number: int) -> None:
    """Puts ``number`` records, from number ``first`` on, into ``pool``. ``filling`` is the descriptor of the
    program ``records_are_free`` (``bpf/filling.h``). Raises OSError.

    A BPF program does this, because a system call for each record would take a second in all.
    """
    if pool in WITHOUT_QUEUE:
        run_raw_tracepoint(filling, pool, first, number)
        return
    firsts = range(first, first + number, FILLED_AT_ONCE)
    # The lowest number is taken first, so that few records are used if few are needed.
    for at in reversed(firsts) if pool in _STACKS else firsts:
        run_raw_tracepoint(filling, pool, at, min(FILLED_AT_ONCE, first + number - at))
