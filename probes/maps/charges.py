"""Reads the off-CPU time that each culprit is charged with, and frees elements that are no longer used.

An element of ``charges`` goes through these stages. Free: its number is in the free queue. Used: the BPF
programs took it for a new pair of victim and culprit. Retired: no BPF program can find it any more; shortly
afterwards it is free again. An element is retired if it did not change for a while, or if its victim or
culprit is a process that is released.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.model.window import SPLITS
from stalltop.probes import layout
from stalltop.probes.maps.charge_folding import LEAST_NS, fold, part_of
from stalltop.probes.maps.raw import RawCharge, RawWait
from stalltop.probes.programs.bpf_calls import delete_all
from stalltop.probes.programs.pools import Pools

KEEP_SECONDS: Final = 10.0
"""Time for which an unchanged element is kept, s."""
MOST_WAITS: Final = 2048
"""Maximum number of ``RawWait`` that one read reports; those with most time are reported."""
_BY_SOMEBODY: Final = np.ones(1 << layout.HOW_SHIFT, np.bool_)
_BY_SOMEBODY[[SPLITS.index("disk"), SPLITS.index("sleep")]] = False
"""Whether processes are charged with a part of the split. No process ends waits in fsync and sleeps, so no
process is charged with them. Only `Charges.waits` reports them."""
_GRACE_SECONDS: Final = 0.1
"""Time between retiring an element and freeing it, s. A BPF program that found the element just before it was
retired has finished with it long before this time is over."""


class Charges:
    """Reads the charges in the Linux kernel. Used from one thread at a time.

    ``charges`` is the mapped array (``layout.CHARGE``); ``charge_of`` is the file descriptor
    of the BPF map with this name, and ``pools`` has the pool of free elements.
    """

    def __init__(
        self,
        charges: NDArray[np.void],
        charge_of: int,
        pools: Pools,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._charges = charges
        self._charge_of = charge_of
        self._pools = pools
        self._clock = clock
        n = len(charges)
        self._times = np.zeros(n, np.uint64)
        self._ns = np.zeros(n, np.uint64)
        self._changed_at = np.zeros(n)
        """Time at which each element was last seen to change."""
        self._retired_at = np.full(n, np.inf)
        self._waits: list[RawWait] = []

    def waits(self) -> list[RawWait]:
        """Returns the waits that the previous `read` found, the longest first. Each has the thread that
        waited and the thread that ended the wait."""
        return self._waits

    def read(self) -> list[RawCharge]:
        """Returns the charges since the previous read. Small charges are summed up (`charge_folding`)."""
        now = self._clock()
        # ``times`` is read before ``ns``, because the BPF programs add to ``ns`` first. So ``ns`` includes
        # the time of every wait that is counted in ``times``.
        times = self._charges["times"].copy()
        changed = np.flatnonzero(times != self._times)
        ns = self._charges["ns"][changed]
        keys = self._charges["key"][changed]
        more_ns, more_times = ns - self._ns[changed], times[changed] - self._times[changed]
        by_others = _BY_SOMEBODY[part_of(keys)]
        found = fold(keys[by_others], more_ns[by_others], more_times[by_others])
        self._waits = _waits(keys, more_ns, more_times)
        self._times = times
        self._ns[changed] = ns
        self._changed_at[changed] = now
        self._free(np.flatnonzero((now - self._retired_at > _GRACE_SECONDS) & (self._changed_at < now)))
        used = (times != 0) & np.isinf(self._retired_at)
        self._retire(np.flatnonzero(used & (now - self._changed_at > KEEP_SECONDS)))
        return [
            RawCharge(tgid, cgroup_id, operation, part & (1 << layout.HOW_SHIFT) - 1, *culprit)
            for (cgroup_id, _, tgid, _, operation, part, _, _), *culprit in zip(
                found.victims.tolist(),
                found.culprits.tolist(),
                found.cgroups.tolist(),
                found.ns.tolist(),
                found.times.tolist(),
                strict=True,
            )
        ]

    def release(self, *tgids: int) -> None:
        """Retires the charges in which one of the processes ``tgids`` is the victim or the culprit. The next
        read still returns their time that was not read yet."""
        keys = self._charges["key"]
        own = np.isin(keys["tgid"], tgids) | np.isin(keys["culprit_tgid"], tgids)
        self._retire(np.flatnonzero(own & (self._charges["times"] != 0) & np.isinf(self._retired_at)))

    def _retire(self, elements: NDArray[np.intp]) -> None:
        if not len(elements):
            return
        delete_all(self._charge_of, self._charges["key"][elements])
        self._retired_at[elements] = self._clock()

    def _free(self, elements: NDArray[np.intp]) -> None:
        if not len(elements):
            return
        keys = self._charges["key"][elements]
        self._charges[elements] = np.zeros(1, self._charges.dtype)
        self._times[elements] = 0
        self._ns[elements] = 0
        self._retired_at[elements] = np.inf
        self._pools.free(
            layout.Pool.CHARGES, elements.tolist(), keys["tgid"].tolist(), keys["cgroup_id"].tolist()
        )


def _waits(keys: NDArray[np.void], ns: NDArray[np.uint64], times: NDArray[np.uint64]) -> list[RawWait]:
    by_thread = np.flatnonzero((keys["tid"] != 0) & (ns >= LEAST_NS))
    longest = by_thread[np.argsort(-ns[by_thread].astype(np.int64), kind="stable")][:MOST_WAITS]
    keys = keys[longest]
    columns = (
        keys["tgid"],
        keys["tid"],
        keys["cgroup_id"],
        keys["operation"],
        part_of(keys),
        keys["part"] >> np.uint32(layout.HOW_SHIFT),
        keys["culprit_tgid"],
        keys["culprit_tid"],
        keys["culprit_cgroup_id"],
        ns[longest],
        times[longest],
    )
    return [RawWait(*each) for each in zip(*(column.tolist() for column in columns), strict=True)]
