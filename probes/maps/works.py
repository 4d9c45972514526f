"""Reads how threads with a record spent their time. These are threads that make calls, and followed threads,
which wake threads that make calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

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
        self._seen: dict[int, tuple[int, int, NDArray[np.int64], int]] = {}
        """State of each record at the previous read: the TID, when the thread got the record, the time of
        each part of the split, and the time of the read."""
        self._placed = Counter[tuple[int, int]]()
        """Number of samples by process and CPU."""

    def look(self) -> None:
        """Takes a sample of the CPUs of those threads that the previous `read` found."""
        records = np.fromiter(self._seen, np.intp, len(self._seen))
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
        seen, found = {}, []
        for index, thread, sums in zip(used.tolist(), threads, off, strict=True):
            tid, since_ns, born_ns = int(thread["shown_tid"]), int(sums["since_ns"]), int(sums["born_ns"])
            parts = sums["all"].astype(np.int64)
            left_ns, part = int(thread["off_since_ns"]), int(thread["off_for"])
            if 0 < left_ns < now_ns and 0 < part < len(parts):
                parts[part] += now_ns - left_ns
            held = left_ns > 0 and not thread["woken_ns"] and int(thread["how"]) in _HELD
            before = self._seen.get(index)
            fresh = before is None or before[:2] != (tid, since_ns)
            if before is None or fresh:
                before = tid, since_ns, np.zeros_like(parts), since_ns
            seen[index] = tid, since_ns, parts, now_ns
            spent = np.maximum(parts - before[2], 0)
            spent[0] = max(now_ns - before[3] - int(spent[1:].sum()), 0)
            if not fresh and int(spent[1:].sum()) < LEAST_NS and not thread["link"]:
                continue
            born = fresh and born_ns > self._began_ns
            held_ns = max(now_ns - max(left_ns, before[3]), 0) if held else 0
            found.append(
                RawWork(
                    tgid=int(thread["tgid"]),
                    tid=tid,
                    cgroup_id=int(thread["cgroup_id"]),
                    link=int(thread["link"]),
                    split_ns=tuple(spent.tolist()),
                    startup_ns=max(since_ns - born_ns, 0) if born else 0,
                    held=int(thread["how"]) if held else 0,
                    held_ns=held_ns,
                )
            )
        self._seen = seen
        return found
