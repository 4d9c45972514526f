"""Reads when processes were active on devices, which means in a call that submits work to a device or waits
for it.

Time is counted in ticks of 2^20 ns (1.05 ms) of CLOCK_MONOTONIC. A set of ticks is an integer whose bit n
stands for the nth tick. The BPF programs mark the ticks of a call when it returns (``bpf/cuda/activity.h``),
and keep the last 4.3 seconds of ticks. This module adds the ticks of calls that are still open. Every tick is
reported once: the next sample begins with the first tick that the previous sample left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.probes.layout import (
    DEPTH,
    DEVICE_SHIFT,
    FUNCTIONS,
    LAP,
    PROCESS_DEVICE,
    SPAN,
    TICK_SHIFT,
    TICKS,
    Pool,
)
from stalltop.probes.maps.raw import RawActivities, RawActivity
from stalltop.probes.operations import Function
from stalltop.probes.programs.bpf_calls import delete_all
from stalltop.probes.programs.loading import Programs

TICK_NS: Final = 1 << TICK_SHIFT
LOOK_NS: Final = 2_000_000_000
"""Age of the last sample, in ns, from which a new sample is due. This is well below the 4.3 seconds of ticks
that the BPF programs keep."""
MOST_TICKS: Final = 128 << 10
"""Maximum number of ticks that are kept until they are read (two minutes). If they are not read within that
time, the oldest ticks are dropped."""
FORGET_TICKS: Final = 3600 * 10**9 // TICK_NS
"""Number of ticks between two removals of old ticks from the records: an hour. A record stores the lap of
each tick modulo 2^15 (a lap has ``TICKS`` ticks, 4.3 s). Laps repeat after 39 hours: an old tick that was
never overwritten would then be mistaken for a new one."""
_MARGIN: Final = 1
"""Number of newest ticks that a sample leaves to the next sample. A call that is not visible yet may have
begun in them."""


class _PendingCall(NamedTuple):
    """A call that has not returned yet, or never will because its thread ended."""

    tgid: int
    cgroup_id: int
    device: int
    start_ns: int
    end_ns: int | None
    """When the thread ended inside the call (CLOCK_MONOTONIC); None while the call is open."""


class Activities:
    """Reads the records of ``bpf/cuda/activity.h``. Used from one thread at a time."""

    def __init__(
        self,
        programs: Programs,
        functions: Sequence[Function],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._records = programs.activities
        self._programs = programs
        self._activity_of = programs.activity_of
        self._pools = programs.pools
        self._clock = clock
        self._uses_device = np.zeros(FUNCTIONS, np.bool_)
        self._uses_device[[function.id for function in functions if function.uses_device]] = True
        self._first = self._upto = clock() >> TICK_SHIFT
        """``_first`` is the first tick that is not reported yet. ``_upto`` is the first tick that is not
        sampled yet."""
        self._found: dict[tuple[int, int, int], int] = {}
        """By process, cgroup and device: the set of ticks, counted from ``_first``."""
        self._late = 0
        self._forgotten = self._upto
        """Tick at which old ticks were last removed."""

    @property
    def due(self) -> bool:
        """Returns whether ``look`` must be called now, even if ``read`` is not called. Otherwise the BPF
        programs would overwrite ticks before they are in a sample."""
        return self._clock() - (self._upto << TICK_SHIFT) > LOOK_NS

    def look(self) -> None:
        """Takes a sample: reads the ticks that the BPF programs keep."""
        first, upto = self._upto, (self._clock() >> TICK_SHIFT) - _MARGIN
        if upto <= first:
            return
        # Open calls are read before the records. So if a call has ended before its thread is read here, its
        # ticks are already in the records.
        calls = list(self._open_calls())
        used = np.flatnonzero(self._records["tgid"])
        records = self._records[used]
        # Ticks that may have been overwritten while they were copied are left out, because they would be
        # incomplete.
        sure = min(max(first, (self._clock() >> TICK_SHIFT) - TICKS + 1), upto)
        self._late += sure - first
        shift = sure - self._first
        for record, ticks in zip(records, active_ticks(records, sure, upto), strict=True):
            if ticks and record["tgid"]:
                key = (int(record["tgid"]), int(record["cgroup_id"]), int(record["device"]))
                self._found[key] = self._found.get(key, 0) | ticks << shift
        for call in calls:
            end = upto if call.end_ns is None else min((call.end_ns >> TICK_SHIFT) + 1, upto)
            ticks = ticks_between(max(call.start_ns >> TICK_SHIFT, sure) - sure, end - sure)
            if ticks:
                self._found[call[:3]] = self._found.get(call[:3], 0) | ticks << shift
        self._upto = upto
        self._drop_oldest()
        if upto - self._forgotten >= FORGET_TICKS:
            self._forgotten = upto
            for number in used:
                forget_before(self._records[number : number + 1], upto)

    def read(self) -> RawActivities:
        """Returns the activity since the previous read."""
        self.look()
        active = [RawActivity(*key, ticks) for key, ticks in self._found.items() if ticks]
        told = RawActivities(self._first, self._upto, active, self._late * TICK_NS)
        self._found, self._late, self._first = {}, 0, self._upto
        return told

    def tgids(self) -> set[int]:
        """Returns the processes that have records."""
        return set(self._records["tgid"].tolist()) - {0}

    def release(self, *tgids: int) -> None:
        """Frees the records of processes that have ended and whose last ticks were read."""
        own = np.flatnonzero(np.isin(self._records["tgid"], tgids))
        if not len(own):
            return
        keys = np.zeros(len(own), PROCESS_DEVICE)
        keys["tgid"], keys["device"] = self._records["tgid"][own], self._records["device"][own]
        delete_all(self._activity_of, keys)
        owners = self._records["tgid"][own].tolist()
        cgroup_ids = self._records["account_cgroup_id"][own].tolist()
        self._records[own] = np.zeros(1, self._records.dtype)
        self._pools.free(Pool.ACTIVITIES, own.tolist(), owners, cgroup_ids)

    def _drop_oldest(self) -> None:
        excess = self._upto - self._first - MOST_TICKS
        if excess > 0:
            self._found = {key: ticks >> excess for key, ticks in self._found.items()}
            self._first += excess
            self._late += excess

    def _open_calls(self) -> Iterator[_PendingCall]:
        """Yields the calls that use a device and are open, and those that were open when their thread
        ended."""
        threads = self._programs.threads
        busy = np.flatnonzero(threads["depth"])
        first, second = threads[busy], threads[busy]
        # Threads continue while their records are copied. Only a frame that is equal in both copies is
        # complete.
        kept = (first["frames"] == second["frames"]) & (first["tid"] == second["tid"])[:, None]
        kept &= np.arange(DEPTH) < np.minimum(first["depth"], second["depth"])[:, None]
        kept &= self._uses_device[np.minimum(first["frames"]["function"], FUNCTIONS - 1)]
        for row, level in zip(*np.nonzero(kept), strict=True):
            thread = first[row]
            frame = thread["frames"][level]
            over = thread["tid"] == 0
            if over and thread != second[row]:
                continue  # A new thread is taking over the record.
            yield _PendingCall(
                int(thread["ended_tgid"] if over else thread["tgid"]),
                int(thread["cgroup_id"]),
                int(frame["operation"]) >> DEVICE_SHIFT,
                int(frame["start_ns"]),
                int(thread["ended_ns"]) if over else None,
            )


def active_ticks(records: NDArray[np.void], first: int, end: int) -> Iterable[int]:
    """Returns the ticks from ``first`` to before ``end`` in which ``records`` (dtype ``layout.ACTIVITY``)
    were active: one set of ticks for each record, counted from ``first``. ``end - first`` is at most
    ``TICKS``."""
    ticks = np.arange(first, end)
    laps = (LAP | ticks // TICKS % LAP).astype(np.uint16)
    active = records["laps"][:, ticks % TICKS] == laps
    active |= records["spans"][:, ticks // SPAN % (TICKS // SPAN)] == laps
    packed = np.packbits(active, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def forget_before(records: NDArray[np.void], tick: int) -> None:
    """Removes from ``records`` all ticks except those in the lap of ``tick``, the lap before it and the lap
    after it. If a BPF program writes a tick at that moment, that tick may be lost."""
    laps = tick // TICKS
    # Elements with these laps may still be written.
    recent = [LAP | lap % LAP for lap in range(laps - 1, laps + 2)]
    for name in ("laps", "spans"):
        records[name][~np.isin(records[name], recent)] = 0


def ticks_between(first: int, end: int) -> int:
    """Returns the set of the ticks from ``first`` to before ``end``; the empty set, 0, if ``end`` is not
    above ``first``."""
    return (1 << end) - (1 << first) if 0 <= first < end else 0
