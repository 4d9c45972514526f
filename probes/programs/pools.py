"""Puts records into the pools from which the BPF programs take them (``bpf/base/pools.h``)."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Mapping

from stalltop.probes.layout import FILLED_AT_ONCE, Pool
from stalltop.probes.programs.bpf_calls import run_raw_tracepoint


class Pools:
    """The pools of loaded programs. ``sizes`` has the number of records of each pool; ``freeing`` is the
    descriptor of the program ``record_is_over`` (``bpf/filling.h``), which this object takes over."""

    def __init__(self, freeing: int, sizes: Mapping[Pool, int]) -> None:
        self._freeing = freeing
        self.sizes = sizes

    def free(
        self,
        pool: Pool,
        records: Iterable[int],
        tgids: Iterable[int] = itertools.repeat(0),
        cgroup_ids: Iterable[int] = itertools.repeat(0),
    ) -> None:
        """Frees ``records`` of ``pool``. ``tgids`` and ``cgroup_ids`` say in whose accounts the records are;
        0: in none. Raises OSError."""
        for record, tgid, cgroup_id in zip(records, tgids, cgroup_ids, strict=False):
            run_raw_tracepoint(self._freeing, pool, record, tgid, cgroup_id)

    def close(self) -> None:
        """Closes the program. May be called twice."""
        fd, self._freeing = self._freeing, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


def fill(filling: int, sizes: Mapping[Pool, int]) -> None:
    """Puts every record into its pool. ``filling`` is the descriptor of the program ``records_are_free``
    (``bpf/filling.h``). Raises OSError.

    A BPF program does this, because a system call for each record would take a second in all.
    """
    for pool, size in sizes.items():
        firsts = range(0, size, FILLED_AT_ONCE)
        # Of a stack, the record that was put there last is taken first.
        for first in reversed(firsts) if pool in (Pool.SLOTS, Pool.KERNELS) else firsts:
            run_raw_tracepoint(filling, pool, first, min(FILLED_AT_ONCE, size - first))
