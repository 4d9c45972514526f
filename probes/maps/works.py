"""Reads how threads with a record spent their time. These are threads that make calls, and followed threads,
which wake threads that make calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.probes.layout import How
from stalltop.probes.maps.raw import RawPlaced, RawWork

LEAST_NS: Final = 1_000_000
"""Limit in ns. A thread that makes calls is not reported if it was off the CPU for less than this since the
previous read: such a thread ran nearly all the time, so it has no waits to explain."""
_HELD: Final = (How.STOPPED, How.TRACED, How.FROZEN)


class Works:
    """Reads the off-CPU time of threads. Used from one thread at a time.

    ``off_cpu`` is a mapped array (``layout.OFF_CPU``), with an element for each record of a thread;
    ``threads`` returns the records that were ever in use (``layout.THREAD``). ``began_ns`` (CLOCK_MONOTONIC)
    is when tracing began.
    ``reach`` makes the first elements of ``off_cpu`` accessible (`GrowingMap`).
    """

    def __init__(
        self,
        off_cpu: NDArray[np.void],
        threads: Callable[[], NDArray[np.void]],
        began_ns: int,
        *,
        reach: Callable[[int], object] = lambda count: None,
    ) -> None:
        self._off_cpu = off_cpu
        self._reach = reach
        self._threads = threads
        self._began_ns = began_ns
        self._seen = _Seen(
            *(np.zeros(0, np.int64),) * 3, np.zeros((0, *off_cpu.dtype["all"].shape), np.int64), 0
        )
        self._placed = Counter[tuple[int, int]]()
        """Number of samples by process and CPU."""

    def look(self) -> None:
        """Takes a sample of the CPUs of those threads that the previous `read` found."""
        records = self._seen.records
        threads = self._threads()
        off, waiting = threads["off_since_ns"][records], threads["waiting_ns"][records]
        # A thread that waits for a CPU is included, because stalltop itself may have that CPU at this moment.
        records = records[(off == 0) | (waiting != 0)]
        tgids, cpus = threads["tgid"][records], threads["cpu"][records]
        self._placed.update(zip(tgids.tolist(), cpus.tolist(), strict=True))

    def placed(self) -> list[RawPlaced]:
        """Returns on which CPUs threads were, in the samples since the previous call of this method."""
        placed, self._placed = self._placed, Counter()
        return [RawPlaced(tgid, cpu, times) for (tgid, cpu), times in placed.items() if tgid]

    def read(self, now_ns: int) -> list[RawWork]:
        """Returns what each thread did since the previous read. ``now_ns`` is CLOCK_MONOTONIC. A wait that
        has not ended counts up to ``now_ns``."""
        records = self._threads()
        used = np.flatnonzero(records["tid"])
        if len(used):
            self._reach(int(used[-1]) + 1)
        threads, off = records[used], self._off_cpu[used]
        tids = threads["shown_tid"].astype(np.int64)
        since_ns, born_ns = off["since_ns"].astype(np.int64), off["born_ns"].astype(np.int64)
        parts_ns = off["all"].astype(np.int64)
        left_ns, waits_for = threads["off_since_ns"].astype(np.int64), threads["off_for"].astype(np.intp)
        is_off = np.flatnonzero(
            (left_ns > 0) & (left_ns < now_ns) & (waits_for > 0) & (waits_for < parts_ns.shape[1])
        )
        parts_ns[is_off, waits_for[is_off]] += now_ns - left_ns[is_off]
        known, at = self._seen.find(used, tids, since_ns)
        begin_ns = np.where(known, self._seen.read_ns, since_ns)
        spent_ns = parts_ns.copy()
        spent_ns[known] -= self._seen.parts_ns[at[known]]
        np.maximum(spent_ns, 0, out=spent_ns)
        off_ns = spent_ns[:, 1:].sum(axis=1)
        spent_ns[:, 0] = np.maximum(now_ns - begin_ns - off_ns, 0)
        self._seen = _Seen(used, tids, since_ns, parts_ns, now_ns)

        told = np.flatnonzero(~known | (off_ns >= LEAST_NS) | (threads["link"] != 0))
        born = ~known & (born_ns > self._began_ns)
        startup_ns = np.where(born, np.maximum(since_ns - born_ns, 0), 0)
        held = (left_ns > 0) & (threads["woken_ns"] == 0) & np.isin(threads["how"], _HELD)
        held_ns = np.where(held, np.maximum(now_ns - np.maximum(left_ns, begin_ns), 0), 0)
        how = np.where(held, threads["how"], 0)
        whose = (threads[name][told].tolist() for name in ("tgid", "shown_tid", "cgroup_id", "link"))
        splits = map(tuple, spent_ns[told].tolist())
        rest = (column[told].tolist() for column in (startup_ns, how, held_ns))
        return [RawWork(*each) for each in zip(*whose, splits, *rest, strict=True)]


class _Seen(NamedTuple):
    """State of the records in use at the previous read. Element i of every array belongs to
    ``records[i]``."""

    records: NDArray[np.intp]
    """Numbers of the records, in rising order."""
    tids: NDArray[np.int64]
    since_ns: NDArray[np.int64]
    """When the thread got the record."""
    parts_ns: NDArray[np.int64]
    """Time of each part of the split, shape (n, parts)."""
    read_ns: int
    """Time of that read."""

    def find(
        self, records: NDArray[np.intp], tids: NDArray[np.int64], since_ns: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """Returns which of ``records`` belonged to the same thread at the previous read, and where they are
        in the arrays."""
        at = np.searchsorted(self.records, records)
        if not len(self.records):
            return np.zeros(len(records), np.bool_), at
        place = np.minimum(at, len(self.records) - 1)
        same = (self.records[place] == records) & (self.tids[place] == tids)
        return same & (self.since_ns[place] == since_ns), place
